//! The deployed handlers as futures over the model's ports.

use crate::codec::{key, message};
use crate::codec_story::episode_key;
use crate::config::Config;
use crate::ports::{Ports, secrets};
use crate::replay::End;
use crate::state::{Body, Msg, Who};
use glassline_protocol::ids::Ms;
use glassline_protocol::message::Message;
use glassline_protocol::note::Note;
use std::future::Future;
use std::pin::Pin;

type Handled<'a> = Pin<Box<dyn Future<Output = End> + 'a>>;

fn end<T>(handled: Result<T, impl std::fmt::Display>, what: impl FnOnce(T) -> String) -> End {
    match handled {
        Ok(note) => End::Done(what(note)),
        Err(fault) => End::GivenBack(fault.to_string()),
    }
}

fn word(note: Note) -> String {
    note.word().to_owned()
}

/// The real code, or the copy with mutants.
macro_rules! code {
    ($config:expr, $real:path, $mutated:path, ($($argument:expr),*), $what:expr) => {
        if $config.mutated() {
            end($mutated($($argument),*).await, $what)
        } else {
            end($real($($argument),*).await, $what)
        }
    };
}

/// The invocation of the function that reads `msg`, or that was called without one.
pub(crate) fn handler<'a>(
    ports: &'a Ports<'a>,
    config: &'a Config,
    who: Who,
    msg: Option<&Msg>,
) -> Handled<'a> {
    let settings = &config.settings;
    let message = msg.and_then(|msg| message(&msg.body));
    match who {
        Who::Tick => Box::pin(async move {
            code!(
                config,
                glassline_dispatch::tick_all,
                crate::mutated::dispatch::tick_all,
                (ports, settings, secrets(), Ms::MAX),
                |_| "ticked".to_owned()
            )
        }),
        Who::Waker => Box::pin(wake(ports, config, message)),
        Who::Worker => Box::pin(async move {
            code!(
                config,
                glassline_worker::handle,
                crate::mutated::worker::handle,
                (ports, settings, secrets(), message.unwrap()),
                word
            )
        }),
        Who::Finisher => Box::pin(async move {
            code!(
                config,
                glassline_finisher::handle,
                crate::mutated::finisher::handle,
                (ports, settings, message.unwrap()),
                word
            )
        }),
        Who::Rollback => Box::pin(async move {
            code!(
                config,
                glassline_rollback::handle,
                crate::mutated::rollback::handle,
                (ports, settings, message.unwrap()),
                word
            )
        }),
        Who::Parent => {
            let Some(Body::Ended { job }) = msg.map(|msg| msg.body) else { panic!("no frame") };
            Box::pin(parent(ports, config, job))
        }
        Who::Requeue(job) => Box::pin(requeue(ports, config, job)),
        Who::Reopen(number) => Box::pin(async move {
            match glassline_protocol::steps::reopen(ports, &episode_key(number)).await {
                Ok(()) => End::Done("reopened".into()),
                Err(error) => End::Done(error.to_string()),
            }
        }),
    }
}

/// A person looks at a job, and asks for another attempt of what was seen.
async fn requeue(ports: &Ports<'_>, config: &Config, job: u8) -> End {
    use glassline_protocol::ports::Store as _;
    let view = match ports.job(&key(job)).await {
        Ok(Some(view)) => view,
        Ok(None) => return End::Done("missing".into()),
        Err(unread) => return End::GivenBack(unread.to_string()),
    };
    let (settings, job) = (&config.settings, view.job);
    code!(
        config,
        glassline_protocol::steps::requeue,
        crate::mutated::steps::requeue,
        (ports, settings, &job.key, job.attempt, None),
        |_| "asked for another attempt".to_owned()
    )
}

async fn wake(ports: &Ports<'_>, config: &Config, message: Option<Message>) -> End {
    for (lane, look) in glassline_dispatch::looks(message.into_iter().collect()) {
        let settings = &config.settings;
        let done = |()| "woken".to_owned();
        let answered = if config.mutated() {
            use crate::mutated::dispatch::{Look, answer};
            let look = match look {
                glassline_dispatch::Look::Full => Look::Full,
                glassline_dispatch::Look::Freed(slots) => Look::Freed(slots),
            };
            end(answer(ports, settings, secrets(), &lane, look, Ms::MAX).await.map(|_| ()), done)
        } else {
            end(
                glassline_dispatch::answer(ports, settings, secrets(), &lane, look, Ms::MAX)
                    .await
                    .map(|_| ()),
                done,
            )
        };
        if matches!(answered, End::GivenBack(_)) {
            return answered;
        }
    }
    End::Done("woken".into())
}

/// What every function does that finds a frame ended: the parent step, before it acknowledges.
async fn parent(ports: &Ports<'_>, config: &Config, job: u8) -> End {
    use glassline_protocol::ports::Store as _;
    let view = match ports.job(&key(job)).await {
        Ok(Some(view)) => view,
        Ok(None) => return End::Done("missing".into()),
        Err(unread) => return End::GivenBack(unread.to_string()),
    };
    code!(
        config,
        glassline_protocol::steps::parent_step,
        crate::mutated::steps::parent_step,
        (ports, &view.job),
        |()| "ended".to_owned()
    )
}
