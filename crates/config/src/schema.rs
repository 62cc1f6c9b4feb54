//! The JSON schema of the file, for editors. A schema cannot express every check: not whether a regular
//! expression or a URL is valid, the bounds of a duration, or constraints between tables. Pure.

use serde_json::{Map, Value, json};

use super::define::{Definition, Form, Presence, Relation, Section, Single};
use podnudge_core::duration::UNITS;

/// The schema of the file, JSON Schema 2020-12.
#[must_use]
pub fn schema(file: &'static Section) -> String {
    let mut schema = table(file);
    if let Value::Object(members) = &mut schema {
        members.insert("$schema".into(), "https://json-schema.org/draft/2020-12/schema".into());
        members.insert("title".into(), "podnudge".into());
    }
    format!("{schema:#}\n")
}

fn table(section: &'static Section) -> Value {
    let settings = section.settings();
    let properties: Map<String, Value> =
        settings.iter().map(|setting| (setting.key(), property(setting))).collect();
    let is_required = |setting: &&&Definition| matches!(setting.presence, Presence::Required(_));
    let required: Vec<String> =
        settings.iter().filter(is_required).map(|setting| setting.key()).collect();
    let relations: Vec<Value> = section.all_relations().into_iter().flat_map(relation).collect();
    let mut table = json!({
        "type": "object",
        "description": section.text(),
        "properties": properties,
        "additionalProperties": false,
    });
    if let Value::Object(members) = &mut table {
        for (name, list) in [("required", json!(required)), ("allOf", json!(relations))] {
            if list.as_array().is_some_and(|list| !list.is_empty()) {
                members.insert(name.into(), list);
            }
        }
    }
    table
}

fn property(setting: &Definition) -> Value {
    let mut one = form(&setting.form);
    if let Some(least) = setting.list {
        one = json!({"anyOf": [one, {"type": "array", "items": one, "minItems": least}]});
    }
    if let Value::Object(members) = &mut one {
        members.insert("description".into(), setting.text().into());
        if let Presence::Default(text) = setting.presence {
            members.insert("default".into(), default(&setting.form, text));
        }
    }
    one
}

fn default(form: &Form, text: &str) -> Value {
    match form {
        Form::Number(..) | Form::Bool => text.parse().unwrap_or_else(|_| text.into()),
        _ => text.into(),
    }
}

fn form(form: &Form) -> Value {
    match *form {
        Form::Text(_) => json!({"type": "string"}),
        Form::Duration(..) => {
            let units = UNITS.join("|");
            let number = r"[0-9][0-9\s]*(\.\s*[0-9][0-9\s]*)?";
            json!({"type": "string", "pattern": format!(r"^\s*({number}({units})\s*)+$")})
        }
        Form::Number(least, most) => json!({"type": "integer", "minimum": least, "maximum": most}),
        Form::Bool => json!({"type": "boolean"}),
        Form::Choice(words) => json!({"enum": words}),
        Form::TextOrNumber(_) => json!({"type": ["string", "integer"]}),
        Form::Scalar => json!({"type": ["string", "integer", "boolean"]}),
        Form::Pairs => json!({"type": "object", "additionalProperties": {"type": "string"}}),
        Form::Table(section, None) => table(section),
        Form::Table(section, Some(short)) => {
            json!({"anyOf": [short_form(section, short), table(section)]})
        }
        Form::Tables(section, Single::Table) => {
            json!({"anyOf": [table(section), {"type": "array", "items": table(section), "minItems": 1}]})
        }
        Form::Tables(section, single) => {
            let list = json!({"type": "array", "items": table(section)});
            match single {
                Single::Key(short) => json!({"anyOf": [short_form(section, short), list]}),
                Single::No | Single::Table => list,
            }
        }
        Form::Flatten(_) => json!({}),
    }
}

/// The value that may stand in place of a table.
fn short_form(section: &'static Section, short: &str) -> Value {
    let of_short = section.settings().into_iter().find(|setting| setting.key() == short);
    of_short.map_or(json!({"type": "string"}), property)
}

fn relation(relation: &Relation) -> Vec<Value> {
    let not_both = |one: &str, other: &str| json!({"not": {"required": [one, other]}});
    let any = |keys: &[&str]| -> Vec<Value> {
        keys.iter().map(|key| json!({"required": [key]})).collect()
    };
    match relation {
        Relation::AtMostOne(keys) => {
            let pairs = keys.iter().enumerate();
            pairs
                .flat_map(|(n, one)| keys.iter().skip(n + 1).map(|other| not_both(one, other)))
                .collect()
        }
        Relation::AtLeastOne(keys, ..) => vec![json!({"anyOf": any(keys)})],
        Relation::Needs(keys, others) => {
            let needs = |key: &&str| json!({"dependentSchemas": {*key: {"anyOf": any(others)}}});
            keys.iter().map(needs).collect()
        }
        Relation::Together(keys) => {
            let needs = |key: &&str| json!({"dependentRequired": {*key: keys}});
            keys.iter().map(needs).collect()
        }
    }
}
