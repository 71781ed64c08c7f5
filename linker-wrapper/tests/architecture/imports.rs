//! Reads which file of a crate imports which other.
//!
//! An import is a `use` declaration or a path in code, macros and attributes included. The declaration `mod x;` is none, but
//! `pub use x::Name` is. Code for tests does not count.

use std::collections::{BTreeMap, BTreeSet};

use proc_macro2::{Span, TokenStream, TokenTree};
use syn::visit::{self, Visit};
use syn::{Attribute, File, ImplItem, Item, ItemMod, ItemUse, Macro, Meta, UseTree, Visibility};

/// The sources of a crate by path below its `src`.
pub type Sources = BTreeMap<String, String>;

/// One file names something in another.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct Import {
    /// The file that imports.
    pub from: String,
    /// The file that is imported.
    pub to: String,
    /// Where in `from`.
    pub line: usize,
}

/// All imports, once for each pair of files, in order.
pub fn imports(sources: &Sources) -> Vec<Import> {
    let parsed: BTreeMap<&str, File> = sources
        .iter()
        .map(|(path, text)| (&**path, syn::parse_file(text).unwrap_or_else(|error| panic!("{path}: {error}"))))
        .collect();
    let tests: BTreeSet<String> = parsed.iter().flat_map(|(path, file)| test_files(path, file)).collect();
    // Beside a library, the program is a crate of its own.
    let is_other = |path: &str| path == "main.rs" && parsed.contains_key("lib.rs");
    let own = parsed.keys().filter(|path| !tests.contains(**path) && !is_other(path));
    let modules: BTreeMap<Vec<String>, &str> = own.map(|path| (module_of(path), *path)).collect();
    let mut found: BTreeMap<(String, String), usize> = BTreeMap::new();
    for (module, path) in &modules {
        let mut reader = Reader::new(module.clone());
        reader.visit_file(&parsed[path]);
        for (segments, line) in reader.paths() {
            let target = (0..=segments.len()).rev().find_map(|end| modules.get(&segments[..end]));
            if let Some(target) = target.filter(|target| *target != path) {
                let place = found.entry(((*path).to_owned(), (*target).to_owned())).or_insert(line);
                *place = line.min(*place);
            }
        }
    }
    found.into_iter().map(|((from, to), line)| Import { from, to, line }).collect()
}

/// `host/coff.rs` is the module `host::coff`.
fn module_of(path: &str) -> Vec<String> {
    let mut segments: Vec<String> = path.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
    if segments.last().is_some_and(|last| ["mod", "main", "lib"].contains(&&**last)) {
        segments.pop();
    }
    segments
}

/// The files of modules that are declared for tests alone.
fn test_files(path: &str, file: &File) -> Vec<String> {
    let folder = path.rsplit_once('/').map_or(String::new(), |(folder, _)| format!("{folder}/"));
    let own = if path.ends_with("mod.rs") { folder.clone() } else { format!("{}/", path.trim_end_matches(".rs")) };
    let of_item = |item: &Item| match item {
        Item::Mod(module) if module.content.is_none() && is_test(&module.attrs) => Some(match path_of(&module.attrs) {
            Some(named) => format!("{folder}{named}"),
            None => format!("{own}{}.rs", module.ident),
        }),
        _ => None,
    };
    file.items.iter().filter_map(of_item).collect()
}

/// `#[path = "…"]`.
fn path_of(attributes: &[Attribute]) -> Option<String> {
    attributes.iter().filter(|attribute| attribute.path().is_ident("path")).find_map(|attribute| {
        let Meta::NameValue(pair) = &attribute.meta else { return None };
        let syn::Expr::Lit(syn::ExprLit { lit: syn::Lit::Str(text), .. }) = &pair.value else { return None };
        Some(text.value())
    })
}

fn is_test(attributes: &[Attribute]) -> bool {
    let is_test = |attribute: &Attribute| match &attribute.meta {
        Meta::List(list) => list.path.is_ident("cfg") && list.tokens.to_string() == "test",
        meta => meta.path().is_ident("test"),
    };
    attributes.iter().any(is_test)
}

/// Collects the paths of one file.
struct Reader {
    /// The module that is being read, inline ones included.
    module: Vec<String>,
    /// What `use` declarations bind here: the whole path, relative to the crate; `None` if it leads out of the crate.
    bound: BTreeMap<String, Option<Vec<String>>>,
    /// Modules that this file declares, inline or in files of their own.
    declared: BTreeSet<String>,
    /// Paths as they were written, with the module that they stand in.
    written: Vec<(Vec<String>, Vec<String>, usize)>,
    /// Paths of `use` declarations, relative to the crate.
    used: Vec<(Vec<String>, usize)>,
}

impl Reader {
    fn new(module: Vec<String>) -> Self {
        Reader { module, bound: BTreeMap::new(), declared: BTreeSet::new(), written: Vec::new(), used: Vec::new() }
    }

    /// All paths that stay in the crate, from its root.
    fn paths(&self) -> Vec<(Vec<String>, usize)> {
        let written = self.written.iter().filter_map(|(module, path, line)| {
            let first = path.first()?;
            let absolute = absolute(module, path).or_else(|| match self.bound.get(first) {
                Some(bound) => Some([bound.clone()?, path[1..].to_vec()].concat()),
                None => self.declared.contains(first).then(|| [module.clone(), path.clone()].concat()),
            })?;
            Some((absolute, *line))
        });
        self.used.iter().cloned().chain(written).collect()
    }

    fn write(&mut self, path: Vec<String>, span: Span) {
        // A name alone was imported elsewhere, or is this file's own.
        if path.len() > 1 {
            self.written.push((self.module.clone(), path, span.start().line));
        }
    }

    fn tree(&mut self, prefix: &[String], tree: &UseTree, line: usize) {
        match tree {
            UseTree::Path(path) => self.tree(&[prefix, &[path.ident.to_string()]].concat(), &path.tree, line),
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.tree(prefix, tree, line)),
            UseTree::Glob(_) => self.bind(None, prefix.to_vec(), line),
            UseTree::Name(name) if name.ident == "self" => self.bind(prefix.last().cloned(), prefix.to_vec(), line),
            UseTree::Name(name) => {
                let name = name.ident.to_string();
                self.bind(Some(name.clone()), [prefix, &[name]].concat(), line);
            }
            UseTree::Rename(rename) => {
                let path = [prefix, &[rename.ident.to_string()]].concat();
                self.bind(Some(rename.rename.to_string()), path, line);
            }
        }
    }

    fn bind(&mut self, name: Option<String>, path: Vec<String>, line: usize) {
        let child = || self.declared.contains(&path[0]).then(|| [self.module.clone(), path.clone()].concat());
        let path = absolute(&self.module, &path).or_else(child);
        if let Some(name) = name {
            self.bound.insert(name, path.clone());
        }
        self.used.extend(path.map(|path| (path, line)));
    }

    /// Paths in tokens that nobody has parsed: arguments of macros and attributes.
    fn tokens(&mut self, tokens: TokenStream) {
        let tokens: Vec<TokenTree> = tokens.into_iter().collect();
        let is = |place: usize, wanted: char| match tokens.get(place) {
            Some(TokenTree::Punct(punct)) => punct.as_char() == wanted,
            _ => false,
        };
        let mut place = 0;
        while let Some(token) = tokens.get(place) {
            place += 1;
            match token {
                TokenTree::Group(group) => self.tokens(group.stream()),
                TokenTree::Ident(first) => {
                    let mut path = vec![first.to_string()];
                    while is(place, ':') && is(place + 1, ':') {
                        let Some(TokenTree::Ident(next)) = tokens.get(place + 2) else { break };
                        path.push(next.to_string());
                        place += 3;
                    }
                    self.write(path, first.span());
                }
                _ => {}
            }
        }
    }
}

/// A path that begins with `crate`, `super` or `self`, from the root of the crate.
fn absolute(module: &[String], path: &[String]) -> Option<Vec<String>> {
    let supers = path.iter().take_while(|segment| *segment == "super").count();
    let base = match &*path[0] {
        "crate" => Vec::new(),
        "self" => module.to_vec(),
        "super" => module[..module.len().saturating_sub(supers)].to_vec(),
        _ => return None,
    };
    Some([base, path[supers.max(1)..].to_vec()].concat())
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_file(&mut self, file: &'ast File) {
        let modules = file.items.iter().filter_map(|item| match item {
            Item::Mod(module) if !is_test(&module.attrs) => Some(module.ident.to_string()),
            _ => None,
        });
        self.declared.extend(modules);
        visit::visit_file(self, file);
    }

    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Mod(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            Item::Const(item) => &item.attrs,
            Item::Static(item) => &item.attrs,
            _ => &[],
        };
        if !is_test(attributes) {
            visit::visit_item(self, item);
        }
    }

    fn visit_impl_item(&mut self, item: &'ast ImplItem) {
        if !matches!(item, ImplItem::Fn(function) if is_test(&function.attrs)) {
            visit::visit_impl_item(self, item);
        }
    }

    fn visit_item_mod(&mut self, module: &'ast ItemMod) {
        self.module.push(module.ident.to_string());
        visit::visit_item_mod(self, module);
        self.module.pop();
    }

    fn visit_item_use(&mut self, item: &'ast ItemUse) {
        self.tree(&[], &item.tree, item.use_token.span.start().line);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let names: Vec<String> = path.segments.iter().map(|segment| segment.ident.to_string()).collect();
        if let (Some(first), None) = (path.segments.first(), &path.leading_colon) {
            self.write(names, first.ident.span());
        }
        visit::visit_path(self, path);
    }

    fn visit_macro(&mut self, invocation: &'ast Macro) {
        self.tokens(invocation.tokens.clone());
    }

    fn visit_attribute(&mut self, attribute: &'ast Attribute) {
        if let Meta::List(list) = &attribute.meta {
            self.tokens(list.tokens.clone());
        }
    }

    /// `pub(in crate::x)` names who may import, and imports nothing.
    fn visit_visibility(&mut self, _: &'ast Visibility) {}
}

/// The files of one circle, for each, as a shortest walk along imports that comes back to its start.
pub fn circles(imports: &[Import]) -> Vec<Vec<&Import>> {
    let mut outgoing: BTreeMap<&str, Vec<&Import>> = BTreeMap::new();
    for import in imports {
        outgoing.entry(&import.from).or_default().push(import);
    }
    let mut seen: BTreeSet<&str> = BTreeSet::new();
    let mut found = Vec::new();
    for start in outgoing.keys().copied() {
        if seen.contains(start) {
            continue;
        }
        if let Some(walk) = walk_back(start, &outgoing) {
            seen.extend(walk.iter().map(|import| &*import.from));
            found.push(walk);
        }
    }
    found
}

fn walk_back<'i>(start: &'i str, outgoing: &BTreeMap<&'i str, Vec<&'i Import>>) -> Option<Vec<&'i Import>> {
    let mut walks: Vec<Vec<&Import>> = vec![Vec::new()];
    let mut reached: BTreeSet<&str> = BTreeSet::new();
    while !walks.is_empty() {
        let mut longer = Vec::new();
        for walk in walks {
            let end: &str = walk.last().map_or(start, |import| &import.to);
            for import in outgoing.get(end).into_iter().flatten() {
                let next = [&walk[..], &[*import]].concat();
                if import.to == start {
                    return Some(next);
                }
                if reached.insert(&import.to) {
                    longer.push(next);
                }
            }
        }
        walks = longer;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sources(files: &[(&str, &str)]) -> Sources {
        files.iter().map(|(path, text)| ((*path).to_owned(), (*text).to_owned())).collect()
    }

    /// "from:line to", for each import of `host/a.rs`.
    fn of(text: &str) -> Vec<String> {
        let all = sources(&[
            ("main.rs", "mod host; mod lto; mod sys;"),
            ("host/mod.rs", "pub mod a; pub mod b;"),
            ("host/a.rs", text),
            ("host/b.rs", ""),
            ("lto/mod.rs", "pub mod worker; pub use worker::Work;"),
            ("lto/worker.rs", ""),
            ("sys/mod.rs", "pub mod process;"),
            ("sys/process/mod.rs", "mod watch;"),
            ("sys/process/watch.rs", ""),
        ]);
        let own = imports(&all).into_iter().filter(|import| import.from == "host/a.rs");
        own.map(|import| format!("{} {}", import.line, import.to)).collect()
    }

    #[test]
    fn every_way_to_name_another_file_is_an_import() {
        for (text, expected) in [
            ("use crate::lto::worker::Work;", vec!["1 lto/worker.rs"]),
            ("use crate::lto::Work;", vec!["1 lto/mod.rs"]),
            (
                "use crate::{lto::{worker, Work}, sys::process::watch as w};",
                vec!["1 lto/mod.rs", "1 lto/worker.rs", "1 sys/process/watch.rs"],
            ),
            ("use super::b::*;", vec!["1 host/b.rs"]),
            ("\nfn f() { crate::lto::worker::run() }", vec!["2 lto/worker.rs"]),
            ("fn f(work: super::super::lto::worker::Work) {}", vec!["1 lto/worker.rs"]),
            ("fn f() { use crate::lto::worker; }", vec!["1 lto/worker.rs"]),
            ("use crate::lto;\nfn f() { lto::worker::run() }", vec!["1 lto/mod.rs", "2 lto/worker.rs"]),
            ("fn f() { print!(\"{}\", crate::lto::worker::TEXT) }", vec!["1 lto/worker.rs"]),
            ("#[error(\"{}\", crate::lto::worker::text(.x))]\nstruct E;", vec!["1 lto/worker.rs"]),
            ("pub use crate::lto::worker::Work;", vec!["1 lto/worker.rs"]),
        ] {
            assert_eq!(of(text), expected, "{text}");
        }
    }

    #[test]
    fn what_is_no_import() {
        for text in [
            "use std::process; fn f() { process::exit(0) }",
            "fn f(lto: Work) { lto.worker::<u8>() }",
            "// use crate::lto::worker;\n/// [`crate::lto::worker`]\nfn f() {}",
            "#[cfg(test)] mod tests { use crate::lto::worker; }",
            "#[cfg(test)] use crate::lto::worker;",
            "pub(in crate::lto) fn f() {}",
            "fn f() { print!(\"crate::lto::worker\") }",
        ] {
            assert_eq!(of(text), [""; 0], "{text}");
        }
    }

    #[test]
    fn files_for_tests_alone_do_not_count() {
        let all = sources(&[
            ("main.rs", "mod a;"),
            ("a.rs", "#[cfg(test)] mod tests; #[cfg(test)] #[path = \"b_tests.rs\"] mod others;"),
            ("a/tests.rs", "use crate::c;"),
            ("b_tests.rs", "use crate::c;"),
            ("c.rs", ""),
        ]);
        assert_eq!(imports(&all), []);
    }

    #[test]
    fn a_module_that_hands_on_a_child_imports_it() {
        let all = sources(&[("a/mod.rs", "mod b;\npub use b::B;"), ("a/b.rs", "use crate::a::C;"), ("c.rs", "")]);
        let imports = imports(&all);
        let circles = circles(&imports);
        assert_eq!(circles.len(), 1);
        let walk: Vec<_> = circles[0].iter().map(|import| (&*import.from, &*import.to, import.line)).collect();
        assert_eq!(walk, [("a/b.rs", "a/mod.rs", 1), ("a/mod.rs", "a/b.rs", 2)]);
    }
}
