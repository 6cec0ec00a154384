//! What a resource would be: as it was asked for, and unknown where the provider computes.

use rmpv::Value;

use crate::Fallible;
use crate::schema::{Block, Nesting};
use crate::wire::{DynamicValue, PlanRequest};

/// The planned state of one resource. What is only known after an apply stays unknown, so that a
/// configuration that needs it earlier fails here as it would in earnest.
pub(crate) fn planned(block: &Block, request: &PlanRequest) -> Fallible<DynamicValue> {
    let mut proposed = decode(request.proposed.as_ref())?;
    let is_created = decode(request.prior.as_ref())?.is_nil();
    if is_created {
        leave_unknown(block, &mut proposed);
    }
    let mut msgpack = Vec::new();
    rmpv::encode::write_value(&mut msgpack, &proposed)?;
    Ok(DynamicValue { msgpack })
}

fn decode(value: Option<&DynamicValue>) -> Fallible<Value> {
    let bytes = value.map(|value| &value.msgpack[..]).unwrap_or_default();
    if bytes.is_empty() {
        return Ok(Value::Nil);
    }
    Ok(rmpv::decode::read_value(&mut &bytes[..])?)
}

fn leave_unknown(block: &Block, object: &mut Value) {
    let Value::Map(fields) = object else { return };
    for (name, value) in fields {
        let Some(name) = name.as_str() else { continue };
        if let Some(attribute) = block.attributes.get(name) {
            if attribute.computed && value.is_nil() {
                *value = unknown();
            }
        } else if let Some(nested) = block.blocks.get(name) {
            match (nested.nesting, value) {
                (Nesting::Single, object) => leave_unknown(&nested.block, object),
                (Nesting::List | Nesting::Set, Value::Array(objects)) => {
                    for object in objects {
                        leave_unknown(&nested.block, object);
                    }
                }
                (Nesting::List | Nesting::Set, _) => {}
            }
        }
    }
}

/// `MessagePack`'s extension 0 is Terraform's unknown value.
fn unknown() -> Value {
    Value::Ext(0, vec![0])
}
