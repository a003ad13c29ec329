//! JSON pointers (<https://www.rfc-editor.org/rfc/rfc6901>) with one addition: a part `*` means every member.

use serde_json::{Map, Value};

/// A pointer into an answer or a request. The empty text points to the whole.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Pointer(Vec<String>);

impl Pointer {
    /// Reads a pointer.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if text.is_empty() {
            return Ok(Self(Vec::new()));
        }
        let Some(rest) = text.strip_prefix('/') else {
            return Err(format!("`{text}` must be a JSON pointer: empty, or it starts with `/`"));
        };
        let parts: Vec<String> =
            rest.split('/').map(|part| part.replace("~1", "/").replace("~0", "~")).collect();
        if parts.len() > 16 {
            return Err("a JSON pointer may have at most 16 parts".to_owned());
        }
        Ok(Self(parts))
    }

    /// Whether it may point to more than one value.
    pub(crate) fn many(&self) -> bool {
        self.0.iter().any(|part| part == "*")
    }

    /// Everything that it points to, in order.
    pub(crate) fn all<'a>(&self, value: &'a Value) -> Vec<&'a Value> {
        let mut found = vec![value];
        for part in &self.0 {
            let mut next = Vec::new();
            for value in found {
                match value {
                    Value::Object(members) if part == "*" => next.extend(members.values()),
                    Value::Array(items) if part == "*" => next.extend(items),
                    Value::Object(members) => next.extend(members.get(part)),
                    Value::Array(items) => {
                        next.extend(part.parse::<usize>().ok().and_then(|index| items.get(index)));
                    }
                    Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {}
                }
            }
            found = next;
        }
        found
    }

    /// The first value that it points to.
    pub(crate) fn first<'a>(&self, value: &'a Value) -> Option<&'a Value> {
        self.all(value).first().copied()
    }

    /// The first text that it points to; whole numbers count as their digits.
    pub(crate) fn text(&self, value: &Value) -> Option<String> {
        match self.first(value)? {
            Value::String(text) => Some(text.clone()),
            Value::Number(number) if !number.is_f64() => Some(number.to_string()),
            Value::Number(_) | Value::Null | Value::Bool(_) | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// Puts a value where it points; objects on the way are made, and for a part `0` a list. An object that meets an
    /// object is merged into it.
    pub(crate) fn put(&self, root: &mut Value, value: Value) {
        let mut place = root;
        for part in &self.0 {
            if part == "0" && place.is_null() {
                *place = Value::Array(vec![Value::Null]);
            }
            let index = match place {
                Value::Array(items) => part.parse::<usize>().ok().filter(|index| *index < items.len()),
                Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) | Value::Object(_) => None,
            };
            if let Some(index) = index {
                let Value::Array(items) = place else { return };
                let Some(item) = items.get_mut(index) else { return };
                place = item;
                continue;
            }
            if !place.is_object() {
                *place = Value::Object(Map::new());
            }
            let Value::Object(members) = place else { return };
            place = members.entry(part.clone()).or_insert(Value::Null);
        }
        merge(place, value);
    }
}

/// Merges one value over another: objects member by member, everything else is replaced.
pub(crate) fn merge(place: &mut Value, value: Value) {
    match (place, value) {
        (Value::Object(own), Value::Object(given)) => {
            for (name, value) in given {
                merge(own.entry(name).or_insert(Value::Null), value);
            }
        }
        (place, value) => *place = value,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn pointer(text: &str) -> Pointer {
        Pointer::parse(text).unwrap()
    }

    #[test]
    fn pointers_find_one_many_or_nothing() {
        let value = json!({"a": {"b": [{"u": "x"}, {"u": "y"}, 7]}, "s/t": 1, "~": 2});
        assert_eq!(pointer("").first(&value), Some(&value));
        assert_eq!(pointer("/a/b/1/u").text(&value), Some("y".into()));
        assert_eq!(pointer("/a/b/*/u").all(&value), [&json!("x"), &json!("y")]);
        assert_eq!(pointer("/a/*/*/u").all(&value).len(), 2);
        assert_eq!(pointer("/s~1t").text(&value), Some("1".into()));
        assert_eq!(pointer("/~0").text(&value), Some("2".into()));
        for missing in ["/a/c", "/a/b/9", "/a/b/-1", "/a/b/x", "/a/b/2/u", "/"] {
            assert_eq!(pointer(missing).first(&value), None, "{missing}");
        }
        assert!(Pointer::parse("a/b").is_err());
        assert!(Pointer::parse(&"/a".repeat(17)).is_err());
    }

    #[test]
    fn placing_makes_objects_and_merges_them() {
        let mut root = json!({"input": {"seed": 1, "prompt": "old"}});
        pointer("/input").put(&mut root, json!({"size": {"w": 1}, "seed": 2}));
        pointer("/input/prompt").put(&mut root, json!("new"));
        pointer("/input/size").put(&mut root, json!({"h": 3}));
        pointer("/meta/ref").put(&mut root, json!("r"));
        assert_eq!(
            root,
            json!({"input": {"seed": 2, "prompt": "new", "size": {"w": 1, "h": 3}}, "meta": {"ref": "r"}})
        );
        let mut list = json!(null);
        pointer("/delete/0").put(&mut list, json!("id"));
        assert_eq!(list, json!({"delete": ["id"]}));
        let mut text = json!("x");
        pointer("/a").put(&mut text, json!(1));
        assert_eq!(text, json!({"a": 1}));
    }
}
