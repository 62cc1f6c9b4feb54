//! Reads manifests: the documents of a YAML stream, as JSON. All scalars are texts.

use saphyr_parser::{Event, Parser};
use serde_json::{Map, Value};

/// The documents.
pub(crate) fn documents(text: &str) -> Vec<Value> {
    let mut events = Parser::new_from_str(text).map(|event| event.unwrap().0);
    let mut documents = Vec::new();
    while let Some(event) = events.next() {
        if let Event::DocumentStart(..) = event {
            let first = events.next().unwrap();
            documents.extend(node(first, &mut events));
        }
    }
    documents
}

/// The node that begins with this event; `None` for the end of a list or a map.
fn node<'a>(begin: Event<'a>, events: &mut impl Iterator<Item = Event<'a>>) -> Option<Value> {
    let mut next = || {
        let begin = events.next().unwrap();
        node(begin, &mut *events)
    };
    Some(match begin {
        Event::Scalar(text, ..) => text.into_owned().into(),
        // What it refers to does not matter here.
        Event::Alias(_) => Value::Null,
        Event::SequenceStart(..) => {
            let mut list = Vec::new();
            while let Some(value) = next() {
                list.push(value);
            }
            list.into()
        }
        Event::MappingStart(..) => {
            let mut map = Map::new();
            while let Some(key) = next() {
                map.insert(key.as_str().unwrap().to_owned(), next().unwrap());
            }
            map.into()
        }
        _ => return None,
    })
}
