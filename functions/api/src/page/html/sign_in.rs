//! The way in, and what is shown when there is nothing to show.

use maud::{Markup, html};

/// The sign-in. `failed` after a try that didn't succeed; it doesn't say why. `next` is a path of ours.
#[must_use]
pub fn sign_in(failed: bool, next: &str) -> Markup {
    html! {
        div class="door" data-next=(next) {
            h1 { "Sign in" }
            p class="lead" { "With the shared secret of this stack." }
            @if failed { p class="why" role="alert" id="failed" { "That didn't work. Check the secret and try again." } }
            form method="post" action="/sign-in" {
                input type="hidden" name="next" value=(next);
                // Password managers keep a secret with a name.
                input class="unseen" type="text" name="username" value="glassline" autocomplete="username" readonly
                    tabindex="-1" aria-hidden="true";
                label for="secret" { "Secret" }
                input id="secret" type="password" name="secret" required maxlength="1024" autofocus
                    autocomplete="current-password" aria-invalid=[failed.then_some("true")]
                    aria-describedby=[failed.then_some("failed")];
                button class="primary" { "Sign in" }
            }
        }
    }
}

/// A page that isn't there, or can't be shown now.
#[must_use]
pub fn problem(heading: &str, sentence: &str) -> Markup {
    html! {
        h1 { (heading) }
        p class="lead" { (sentence) }
        p { a href="/" { "To the registry" } }
    }
}

/// A change that was refused, and the way to how things are now.
#[must_use]
pub fn refused(why: &str, path: &str) -> Markup {
    html! {
        h1 { "Nothing was changed" }
        p class="why" role="alert" { (why) }
        p { a href=(path) { "Look at how it is now" } }
    }
}
