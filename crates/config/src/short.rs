//! Short forms: text or a number in place of a table sets one of its keys, such as `signal = "HUP"`. Pure.

use super::define::{Form, Section, Single};
use super::tree::{Entries, Value};

/// Writes the short forms in a table out, so that nothing else has to know them.
pub(super) fn write_out(table: &mut Entries, section: &'static Section) {
    for setting in section.settings() {
        let Some((at, node)) = table.get_mut(&setting.key()) else { continue };
        let is_value = matches!(node.value, Value::Text(_) | Value::Number { .. });
        match setting.form {
            Form::Table(inner, short) => {
                if let Some(short) = short.filter(|_| is_value) {
                    *node = node.clone().within(at, short);
                }
                if let Value::Table(table) = &mut node.value {
                    write_out(table, inner);
                }
            }
            Form::Tables(inner, single) => {
                if let (Single::Key(short), true) = (single, is_value) {
                    node.value = Value::List(vec![node.clone().within(at, short)]);
                }
                if let Value::List(tables) = &mut node.value {
                    for node in tables {
                        if let Value::Table(table) = &mut node.value {
                            write_out(table, inner);
                        }
                    }
                }
            }
            _ => {}
        }
    }
}
