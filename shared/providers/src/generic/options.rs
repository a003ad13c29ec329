//! Options: what a lane gives to a description, put into its texts before anything else is read.

use super::read::{Mistake, mistake, one_line};
use super::spec::OptionSpec;
use std::collections::BTreeMap;

/// The options of a description with the values that the lane gives.
pub(super) fn options(
    table: &toml::Table,
    given: &BTreeMap<String, String>,
) -> Result<BTreeMap<String, String>, Mistake> {
    let declared: BTreeMap<String, OptionSpec> = match table.get("options") {
        Some(value) => value
            .clone()
            .try_into()
            .map_err(|error: toml::de::Error| mistake("options", one_line(error.message())))?,
        None => BTreeMap::new(),
    };
    if let Some(unknown) = given.keys().find(|name| !declared.contains_key(*name)) {
        let known: Vec<&str> = declared.keys().map(String::as_str).collect();
        let rule = format!("the lane gives an option that isn't one; it may give: {}", known.join(", "));
        return Err(mistake(format!("options.{unknown}"), rule));
    }
    let mut options = BTreeMap::new();
    for (name, spec) in declared {
        let value = given.get(&name).cloned().or(spec.default);
        let value =
            value.ok_or_else(|| mistake(format!("options.{name}"), "the lane must give this option"))?;
        if !crate::lane::model_name(&value) {
            let rule = "an option is letters, digits and `._:-`, in parts divided by `/`";
            return Err(mistake(format!("options.{name}"), rule));
        }
        options.insert(name, value);
    }
    Ok(options)
}

/// Replaces `{option.name}` in every text but those of the options themselves.
pub(super) fn fill_options(
    place: &str,
    value: &mut toml::Value,
    options: &BTreeMap<String, String>,
) -> Result<(), Mistake> {
    if place == "options" {
        return Ok(());
    }
    match value {
        toml::Value::String(text) => *text = filled(place, text, options)?,
        toml::Value::Array(items) => {
            for item in items {
                fill_options(place, item, options)?;
            }
        }
        toml::Value::Table(members) => {
            let old = std::mem::take(members);
            for (name, mut member) in old {
                let inner = format!("{place}.{name}");
                fill_options(&inner, &mut member, options)?;
                members.insert(filled(&inner, &name, options)?, member);
            }
        }
        toml::Value::Integer(_)
        | toml::Value::Float(_)
        | toml::Value::Boolean(_)
        | toml::Value::Datetime(_) => {}
    }
    Ok(())
}

fn filled(place: &str, text: &str, options: &BTreeMap<String, String>) -> Result<String, Mistake> {
    let mut done = String::new();
    let mut rest = text;
    while let Some((before, after)) = rest.split_once("{option.") {
        let Some((name, after)) = after.split_once('}') else {
            return Err(mistake(place, "`{option.` has no `}`"));
        };
        let value = options.get(name).ok_or_else(|| {
            mistake(place, format!("`{{option.{name}}}` is not declared under `[options.{name}]`"))
        })?;
        done.push_str(before);
        done.push_str(value);
        rest = after;
    }
    done.push_str(rest);
    Ok(done)
}
