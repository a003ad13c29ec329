//! Reading input that may hold posts and stories: an object with `series` is a story, any other is a post.

use super::parse::{BadPost, Post, each_object, field, post, refuse_repeats as refuse_repeated_posts};
use super::story::{Story, refuse_repeats as refuse_repeated_stories, story};

/// What an object is called as long as nobody knows which.
const EITHER: &str = "post or story";

/// A post or a story.
#[derive(Clone, Debug, PartialEq)]
pub enum Submission {
    /// A post.
    Post(Post),
    /// A story.
    Story(Story),
}

/// Reads posts and stories from text: one JSON object, an array of objects, or JSON Lines. Each is judged on its own.
///
/// # Errors
/// As [`super::parse_posts`].
pub fn parse_submissions(text: &str) -> Result<Vec<Result<Submission, BadPost>>, BadPost> {
    let read = each_object(text, EITHER, |place, raw| {
        if field(raw, "series").is_some() {
            story(place.replacen(EITHER, "story", 1), raw).map(Submission::Story)
        } else {
            post(place.replacen(EITHER, "post", 1), raw).map(Submission::Post)
        }
    })?;
    let (mut posts, mut stories) = (Vec::new(), Vec::new());
    for item in read {
        match item {
            Ok(Submission::Story(story)) => stories.push(Ok(story)),
            Ok(Submission::Post(post)) => posts.push(Ok(post)),
            Err(bad) => posts.push(Err(bad)),
        }
    }
    let posts = refuse_repeated_posts(posts).into_iter().map(|post| post.map(Submission::Post));
    let stories = refuse_repeated_stories(stories).into_iter().map(|story| story.map(Submission::Story));
    Ok(posts.chain(stories).collect())
}
