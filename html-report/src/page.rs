//! Writes a page as HTML.

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use offload_bundle::printable;
use serde::Serialize;
use sha2::{Digest, Sha256};

use crate::gate::GateMatrix;
use crate::gpus::GpuMatrix;
use crate::table::{Table, Texts};
use crate::timeline::Timeline;
use crate::tree::Node;

/// The kind of a page.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PageKind {
    /// What files hold.
    Files,
    /// What differs between two files or folders.
    Difference,
    /// A link.
    Link,
    /// Where files run.
    Gate,
}

/// A figure or a text at the top of a page.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Fact {
    /// What it is.
    pub label: String,
    /// Its value.
    pub value: String,
}

impl Fact {
    /// A fact.
    pub fn new(label: &str, value: impl Into<String>) -> Self {
        Self { label: label.to_owned(), value: value.into() }
    }
}

/// A page. The field names are the keys of the JSON that the HTML contains.
#[derive(Debug, Clone, Serialize)]
pub struct Page {
    /// What it shows.
    pub kind: PageKind,
    /// Its title.
    pub title: String,
    /// The program that wrote it, with its version.
    pub producer: String,
    /// What stands at its top.
    pub facts: Vec<Fact>,
    /// The texts that tables and the tree refer to.
    #[serde(flatten)]
    pub texts: Texts,
    /// Where the time of a link went.
    pub timeline: Option<Timeline>,
    /// The bytes.
    pub tree: Option<Node>,
    /// What each GPU runs; of a difference, before and after.
    pub gpus: Vec<GpuMatrix>,
    /// On which GPUs and with which drivers files run.
    pub gate: Vec<GateMatrix>,
    /// Tables, in order.
    pub tables: Vec<Table>,
}

const SKELETON: &str = include_str!("web/page.html");
const STYLE: &str = include_str!("web/style.css");
/// In the order in which they run.
const SCRIPTS: [&str; 8] = [
    include_str!("web/base.js"),
    include_str!("web/tooltip.js"),
    include_str!("web/treemap.js"),
    include_str!("web/table.js"),
    include_str!("web/gpus.js"),
    include_str!("web/gate.js"),
    include_str!("web/timeline.js"),
    include_str!("web/main.js"),
];

impl Page {
    /// An empty page.
    pub fn new(kind: PageKind, title: impl Into<String>, producer: impl Into<String>) -> Self {
        Self {
            kind,
            title: title.into(),
            producer: producer.into(),
            facts: Vec::new(),
            texts: Texts::default(),
            timeline: None,
            tree: None,
            gpus: Vec::new(),
            gate: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// The same under another title, such as the name of the package that its files are in.
    #[must_use]
    pub fn titled(mut self, title: &str) -> Self {
        self.title = printable::name(title).into_owned();
        if let Some(tree) = &mut self.tree {
            tree.name.clone_from(&self.title);
        }
        self
    }

    /// The page as one HTML file. Its policy lets the browser run the script of this crate alone, and load nothing.
    ///
    /// # Errors
    /// A figure that JSON cannot represent.
    pub fn html(&self) -> Result<String, serde_json::Error> {
        let script = format!("\"use strict\";\n(() => {{\n{}}})();\n", SCRIPTS.concat());
        let policy = format!(
            "default-src 'none'; img-src data:; style-src '{}'; script-src '{}'; base-uri 'none'; form-action 'none'",
            hash(STYLE),
            hash(&script)
        );
        let data = for_script(&serde_json::to_string(self)?);
        let title = for_text(&self.title);
        // Each part is inserted once, so that no part is looked for in another one.
        let mut out = String::with_capacity(SKELETON.len() + STYLE.len() + script.len() + data.len() + 1024);
        for piece in SKELETON.split_inclusive("@@") {
            let (text, part) = match piece.strip_suffix("@@") {
                Some(rest) => rest.rsplit_once('{').unwrap_or((rest, "")),
                None => (piece, ""),
            };
            out += text;
            out += match part {
                "policy" => &policy,
                "title" => &title,
                "style" => STYLE,
                "data" => &data,
                "script" => &script,
                _ => "",
            };
        }
        Ok(out)
    }
}

/// The hash by which a policy permits a text.
fn hash(text: &str) -> String {
    format!("sha256-{}", BASE64_STANDARD.encode(Sha256::digest(text.as_bytes())))
}

/// JSON that can stand in a script element: no text in it ends the element or begins a comment, and it is valid JavaScript, too.
fn for_script(json: &str) -> String {
    let mut out = String::with_capacity(json.len() + json.len() / 64);
    for c in json.chars() {
        match c {
            '<' | '>' | '&' | '\u{2028}' | '\u{2029}' => out += &format!("\\u{:04x}", u32::from(c)),
            _ => out.push(c),
        }
    }
    out
}

/// Text between tags.
fn for_text(text: &str) -> String {
    let escape = |c| match c {
        '<' => "&lt;".to_owned(),
        '>' => "&gt;".to_owned(),
        '&' => "&amp;".to_owned(),
        c if char::is_control(c) => " ".to_owned(),
        c => c.to_string(),
    };
    text.chars().map(escape).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn data_of(html: &str) -> &str {
        let (_, rest) = html.split_once("<script type=\"application/json\" id=\"data\">").expect("the data");
        rest.split_once("</script>").expect("its end").0
    }

    #[test]
    fn the_page_is_one_file_that_loads_nothing() {
        let html = Page::new(PageKind::Files, "a.so", "test 1").html().expect("a page");
        assert!(html.starts_with("<!doctype html>") && html.trim_end().ends_with("</html>"));
        for word in ["src=", "@import", "url(", "fetch(", "http-equiv=\"refresh\"", "innerHTML", "eval("] {
            assert!(!html.contains(word), "{word}");
        }
        assert!(!html.contains("@@"), "all parts are inserted");
        let style = html.split_once("<style>").expect("a style").1.split_once("</style>").expect("its end").0;
        assert!(html.contains(&hash(style)));
        let script = html.rsplit_once("<script>").expect("a script").1.split_once("</script>").expect("its end").0;
        assert!(html.contains(&hash(script)));
    }

    proptest! {
        /// Whatever a file calls itself: the browser reads the data as it was written, and the page has as many tags as any.
        #[test]
        fn hostile_names_stay_data(name in "(</script>|<!--|<script|@@|\\{data@@|&amp;|\u{2028}|\"|'|\\\\|.){0,12}") {
            let plain = Page::new(PageKind::Files, "a", "test 1").html().expect("a page");
            let mut page = Page::new(PageKind::Files, name.clone(), "test 1");
            page.texts.name(&name, &|shown| shown.to_owned());
            let html = page.html().expect("a page");
            let data: serde_json::Value = serde_json::from_str(data_of(&html)).expect("JSON");
            prop_assert_eq!(data["title"].as_str(), Some(name.as_str()));
            prop_assert_eq!(html.matches('<').count(), plain.matches('<').count());
            let has_markup = data_of(&html).contains(['<', '>', '&', '\u{2028}', '\u{2029}']);
            prop_assert!(!has_markup);
        }
    }
}
