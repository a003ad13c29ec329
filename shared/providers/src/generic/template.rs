//! Texts with placeholders such as `{task}`.

use std::fmt::Write as _;

/// A text with placeholders.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Template(Vec<Part>);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Part {
    Text(String),
    Name(String),
}

impl Template {
    /// Reads a text; every placeholder must be one of `allowed`, or `{item:/pointer}` where `item:` is allowed.
    pub(crate) fn parse(text: &str, allowed: &[&str]) -> Result<Self, String> {
        let mut parts = Vec::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('{') {
            let Some((name, after)) = after.split_once('}') else {
                return Err(format!("`{text}` has a `{{` without its `}}`"));
            };
            if !before.is_empty() {
                parts.push(Part::Text(before.to_owned()));
            }
            let known = allowed.contains(&name) || (allowed.contains(&"item:") && name.starts_with("item:"));
            if !known {
                let allowed = allowed.iter().fold(String::new(), |mut list, name| {
                    let _ = write!(list, "{}{{{name}}}", if list.is_empty() { "" } else { ", " });
                    list
                });
                return Err(format!("`{{{name}}}` is not known here; use one of {allowed}"));
            }
            parts.push(Part::Name(name.to_owned()));
            rest = after;
        }
        if !rest.is_empty() {
            parts.push(Part::Text(rest.to_owned()));
        }
        Ok(Self(parts))
    }

    /// The placeholder that is the whole text, if it is one.
    pub(crate) fn whole(&self) -> Option<&str> {
        match self.0.as_slice() {
            [Part::Name(name)] => Some(name),
            _ => None,
        }
    }

    /// Whether a placeholder is in it.
    pub(crate) fn has(&self, wanted: &str) -> bool {
        self.0.iter().any(|part| matches!(part, Part::Name(name) if name == wanted))
    }

    /// The names in it.
    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.0.iter().filter_map(|part| match part {
            Part::Name(name) => Some(name.as_str()),
            Part::Text(_) => None,
        })
    }

    /// The text with every placeholder replaced; `None` if one of them has no value now.
    pub(crate) fn fill(&self, value: &dyn Fn(&str) -> Option<String>) -> Option<String> {
        let mut text = String::new();
        for part in &self.0 {
            match part {
                Part::Text(part) => text.push_str(part),
                Part::Name(name) => text.push_str(&value(name)?),
            }
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn placeholders_are_checked_and_filled() {
        let template = Template::parse("/a/{task}/b-{task}", &["task"]).unwrap();
        assert_eq!(template.fill(&|_| Some("7".into())), Some("/a/7/b-7".into()));
        assert_eq!(template.fill(&|_| None), None);
        assert_eq!(template.whole(), None);
        assert_eq!(Template::parse("{task}", &["task"]).unwrap().whole(), Some("task"));
        let item = Template::parse("{item:/a}", &["item:"]).unwrap();
        assert_eq!(item.names().collect::<Vec<_>>(), ["item:/a"]);
        let error = Template::parse("{tusk}", &["task", "prompt"]).unwrap_err();
        assert_eq!(error, "`{tusk}` is not known here; use one of {task}, {prompt}");
        assert!(Template::parse("{task", &["task"]).is_err());
        assert_eq!(Template::parse("a}b", &[]).unwrap().fill(&|_| None), Some("a}b".into()));
    }
}
