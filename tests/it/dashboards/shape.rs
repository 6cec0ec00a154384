//! What a dashboard consists of: the parts of Grafana's model (schema version 39, Grafana 10 and
//! newer) that are used here. Grafana ignores what it does not know; here a misspelt word is refused.

#![allow(dead_code, reason = "that a field can be read is what is checked")]

use serde::Deserialize;
use serde_json::{Map, Value};

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Dashboard {
    pub(super) uid: String,
    pub(super) title: String,
    pub(super) description: String,
    pub(super) tags: Vec<String>,
    pub(super) schema_version: u32,
    version: u32,
    editable: bool,
    graph_tooltip: u32,
    time: Range,
    refresh: String,
    timezone: String,
    pub(super) links: Vec<TopLink>,
    pub(super) annotations: List<Annotation>,
    pub(super) templating: List<Variable>,
    pub(super) panels: Vec<Panel>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct List<T> {
    pub(super) list: Vec<T>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Range {
    pub(super) from: String,
    pub(super) to: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
#[expect(clippy::struct_excessive_bools, reason = "Grafana's model has them")]
pub(super) struct TopLink {
    r#type: TopLinkKind,
    title: String,
    pub(super) tags: Vec<String>,
    as_dropdown: bool,
    include_vars: bool,
    keep_time: bool,
    target_blank: bool,
    icon: String,
    tooltip: String,
    pub(super) url: String,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "lowercase")]
enum TopLinkKind {
    Dashboards,
    Link,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Annotation {
    pub(super) name: String,
    pub(super) datasource: Datasource,
    enable: bool,
    icon_color: String,
    pub(super) expr: String,
    step: String,
    title_format: String,
}

#[derive(Debug, Deserialize, PartialEq, Eq)]
#[serde(deny_unknown_fields)]
pub(super) struct Datasource {
    pub(super) r#type: String,
    pub(super) uid: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum Variable {
    Datasource {
        name: String,
        label: String,
        query: String,
        refresh: u32,
    },
    #[serde(rename_all = "camelCase")]
    Query {
        name: String,
        label: String,
        datasource: Datasource,
        query: VariableQuery,
        refresh: u32,
        sort: u32,
        #[serde(default)]
        multi: bool,
        #[serde(default)]
        include_all: bool,
        all_value: Option<String>,
        current: Option<Current>,
    },
    Textbox {
        name: String,
        label: String,
        description: String,
        query: String,
        current: Current,
        #[serde(default)]
        hide: u32,
    },
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct VariableQuery {
    ref_id: String,
    query: String,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Current {
    text: Value,
    value: Value,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Panel {
    pub(super) id: u32,
    pub(super) r#type: Kind,
    pub(super) title: String,
    #[serde(default)]
    pub(super) description: String,
    pub(super) grid_pos: Place,
    pub(super) datasource: Option<Datasource>,
    #[serde(default)]
    pub(super) targets: Vec<Target>,
    #[serde(default)]
    pub(super) field_config: FieldConfig,
    #[serde(default)]
    transformations: Vec<Transformation>,
    #[serde(default)]
    pub(super) options: Map<String, Value>,
    #[serde(default)]
    pub(super) links: Vec<Link>,
    /// Of a row.
    collapsed: Option<bool>,
    panels: Option<[(); 0]>,
}

#[derive(Debug, Clone, Copy, Deserialize, PartialEq, Eq)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Kind {
    Row,
    Stat,
    Timeseries,
    StateTimeline,
    Table,
    Heatmap,
    Text,
}

/// On a grid of 24 columns.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Place {
    pub(super) h: u32,
    pub(super) w: u32,
    pub(super) x: u32,
    pub(super) y: u32,
}

#[derive(Debug, Deserialize)]
#[serde(untagged, deny_unknown_fields)]
pub(super) enum Target {
    #[serde(rename_all = "camelCase")]
    Prometheus {
        ref_id: String,
        expr: String,
        legend_format: Option<String>,
        format: Option<String>,
        instant: Option<bool>,
        range: Option<bool>,
    },
    #[serde(rename_all = "camelCase")]
    Tempo {
        ref_id: String,
        query_type: String,
        table_type: String,
        limit: u32,
        query: String,
    },
}

#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct FieldConfig {
    pub(super) defaults: Field,
    pub(super) overrides: Vec<Override>,
}

#[derive(Debug, Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Field {
    pub(super) unit: Option<Unit>,
    min: Option<f64>,
    max: Option<f64>,
    decimals: Option<u32>,
    no_value: Option<String>,
    pub(super) thresholds: Option<Thresholds>,
    #[serde(default)]
    mappings: Vec<Mapping>,
    #[serde(default)]
    pub(super) links: Vec<Link>,
    #[serde(default)]
    pub(super) custom: Map<String, Value>,
}

/// Those of Grafana's units that are used here.
#[derive(Debug, Deserialize)]
pub(super) enum Unit {
    #[serde(rename = "none")]
    Number,
    #[serde(rename = "percent")]
    Percent,
    #[serde(rename = "percentunit")]
    Share,
    #[serde(rename = "s")]
    Seconds,
    #[serde(rename = "bytes")]
    Bytes,
    #[serde(rename = "reqps")]
    RequestsPerSecond,
    #[serde(rename = "ops")]
    PerSecond,
    #[serde(rename = "dateTimeFromNow")]
    Moment,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Thresholds {
    mode: String,
    pub(super) steps: Vec<Step>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    color: String,
    pub(super) value: Option<f64>,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase", deny_unknown_fields)]
enum Mapping {
    Value {
        options: std::collections::BTreeMap<String, Mapped>,
    },
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Mapped {
    text: String,
    color: String,
    index: u32,
}

#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub(super) struct Link {
    pub(super) title: String,
    pub(super) url: String,
    #[serde(default)]
    target_blank: bool,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Override {
    matcher: Matcher,
    pub(super) properties: Vec<Property>,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Matcher {
    id: String,
    options: String,
}

#[derive(Debug, Deserialize)]
#[serde(tag = "id", content = "value", rename_all = "lowercase")]
pub(super) enum Property {
    Links(Vec<Link>),
}

/// The one transformation that is used.
#[derive(Debug, Deserialize)]
#[serde(tag = "id", content = "options", rename_all = "lowercase")]
enum Transformation {
    Organize(Organize),
}

/// Which columns to leave out, and how to call others.
#[derive(Debug, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
struct Organize {
    exclude_by_name: std::collections::BTreeMap<String, bool>,
    rename_by_name: std::collections::BTreeMap<String, String>,
}

impl Variable {
    pub(super) fn name(&self) -> &str {
        match self {
            Self::Datasource { name, .. }
            | Self::Query { name, .. }
            | Self::Textbox { name, .. } => name,
        }
    }
}

impl Target {
    pub(super) fn ref_id(&self) -> &str {
        match self {
            Self::Prometheus { ref_id, .. } | Self::Tempo { ref_id, .. } => ref_id,
        }
    }
}

impl Panel {
    pub(super) fn is_row(&self) -> bool {
        self.r#type == Kind::Row
    }

    /// Where a click leads: from the panel's head, from its points, and from single columns.
    pub(super) fn all_links(&self) -> impl Iterator<Item = &Link> {
        let overrides = self.field_config.overrides.iter();
        let of_columns = overrides
            .flat_map(|of| &of.properties)
            .flat_map(|Property::Links(links)| links);
        let of_points = self.field_config.defaults.links.iter();
        self.links.iter().chain(of_points).chain(of_columns)
    }
}
