//! The schema files, and what Terraform is told of them.

use std::collections::BTreeMap;
use std::path::Path;

use serde::Deserialize;
use serde_json::Value;

use crate::Fallible;
use crate::wire;

/// What one provider knows.
#[derive(Debug, Deserialize)]
pub(crate) struct Schemas {
    pub(crate) provider: String,
    pub(crate) provider_config: Block,
    pub(crate) resources: BTreeMap<String, Block>,
    pub(crate) data: BTreeMap<String, Block>,
}

/// Arguments and nested blocks.
#[derive(Debug, Deserialize)]
pub(crate) struct Block {
    pub(crate) attributes: BTreeMap<String, Attribute>,
    pub(crate) blocks: BTreeMap<String, Nested>,
}

/// One argument, or one attribute that the provider computes.
#[derive(Debug, Deserialize)]
pub(crate) struct Attribute {
    /// As Terraform writes types in JSON: `"string"`, `["list","string"]`.
    #[serde(rename = "type")]
    kind: Value,
    #[serde(default)]
    required: bool,
    #[serde(default)]
    optional: bool,
    #[serde(default)]
    pub(crate) computed: bool,
}

/// A block that may stand in another one, so and so many times. `max` 0: no limit.
#[derive(Debug, Deserialize)]
pub(crate) struct Nested {
    #[serde(flatten)]
    pub(crate) block: Block,
    pub(crate) nesting: Nesting,
    min: i64,
    max: i64,
}

#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Nesting {
    Single,
    List,
    Set,
}

impl Schemas {
    pub(crate) fn read(path: &Path) -> Fallible<Self> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("cannot read {}: {error}", path.display()))?;
        serde_json::from_str(&text)
            .map_err(|error| format!("{} is no schema file: {error}", path.display()).into())
    }

    /// The answer to `GetProviderSchema`.
    pub(crate) fn to_wire(&self) -> wire::Schemas {
        let all = |blocks: &BTreeMap<String, Block>| {
            let named = blocks.iter();
            named
                .map(|(name, block)| (name.clone(), block.to_schema()))
                .collect()
        };
        wire::Schemas {
            provider: Some(self.provider_config.to_schema()),
            resources: all(&self.resources),
            data: all(&self.data),
        }
    }
}

impl Block {
    fn to_schema(&self) -> wire::Schema {
        wire::Schema {
            block: Some(self.to_wire()),
        }
    }

    fn to_wire(&self) -> wire::Block {
        let attribute = |(name, attribute): (&String, &Attribute)| wire::Attribute {
            name: name.clone(),
            kind: attribute.kind.to_string().into_bytes(),
            required: attribute.required,
            optional: attribute.optional,
            computed: attribute.computed,
        };
        wire::Block {
            attributes: self.attributes.iter().map(attribute).collect(),
            blocks: self.blocks.iter().map(Nested::to_wire).collect(),
        }
    }
}

impl Nested {
    fn to_wire((name, nested): (&String, &Self)) -> wire::NestedBlock {
        // Terraform takes equal limits only of a single block, and reads 0 as "may be left out".
        let (mode, min_items, max_items) = match nested.nesting {
            Nesting::Single => (wire::SINGLE, nested.min, nested.min),
            Nesting::List => (wire::LIST, nested.min, nested.max),
            Nesting::Set => (wire::SET, nested.min, nested.max),
        };
        wire::NestedBlock {
            name: name.clone(),
            block: Some(nested.block.to_wire()),
            mode,
            min_items,
            max_items,
        }
    }
}
