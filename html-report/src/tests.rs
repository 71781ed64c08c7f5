//! Pages of small files.

use std::collections::BTreeMap;

use offload_bundle::GpuArch;
use offload_bundle::archive::reject_thin_members;
use offload_bundle::difference::images;
use offload_bundle::fatbin::{BuilderOptions, FatbinBuilder};
use offload_bundle::host_object::Search;
use serde_json::Value;

use crate::difference::{self, Side};
use crate::{FileContents, files};

fn fatbin(targets: &[(u32, usize)]) -> Vec<u8> {
    let mut builder = FatbinBuilder::new(BuilderOptions::default());
    for (number, size) in targets {
        let name = "k".repeat(*size);
        let ptx = format!(".version 8.0\n.target sm_{number}\n.address_size 64\n.visible .entry {name}() {{ ret; }}\n");
        builder.add_ptx(GpuArch::plain(*number), ptx.into_bytes(), "kernel.cu", "").expect("sound PTX");
    }
    builder.finish().expect("a fatbin")
}

fn contents(name: &str, data: &[u8]) -> FileContents {
    FileContents::read(name, data, &mut reject_thin_members, Search::Sections).expect("a sound file")
}

#[test]
fn names_lose_the_folder_that_all_are_in() {
    let data = fatbin(&[(80, 10)]);
    for (given, expected) in [
        (&["/tmp/x/a.o", "/tmp/x/ab.o"][..], &["a.o", "ab.o"][..]),
        (&["x.whl:lib/a.so", "x.whl:b.so"], &["lib/a.so", "b.so"]),
        (&["a/b.o"], &["b.o"]),
        (&["größe/a.o", "große/a.o"], &["größe/a.o", "große/a.o"]),
    ] {
        let mut files: Vec<FileContents> = given.iter().map(|name| contents(name, &data)).collect();
        crate::contents::leave_out_common_folder(&mut files);
        assert_eq!(files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(), expected);
    }
}

fn side(name: &str, data: &[u8]) -> Side {
    let compared = BTreeMap::from([("file".to_owned(), images(data, reject_thin_members).expect("images"))]);
    Side { name: name.to_owned(), files: vec![contents("file", data)], compared }
}

fn json(page: &crate::Page) -> Value {
    serde_json::to_value(page).expect("JSON")
}

#[test]
fn bytes_of_a_node_are_those_of_its_children() {
    let data = fatbin(&[(80, 10), (90, 1000)]);
    let files = [contents("/tmp/a.fatbin", &data), contents("/tmp/b.fatbin", &data)];
    let page = json(&files::page(&files, "test", &str::to_owned));
    fn check(node: &Value) -> u64 {
        let bytes = node["bytes"].as_u64().expect("a number");
        let children = node["children"].as_array().cloned().unwrap_or_default();
        let sum: u64 = children.iter().map(check).sum();
        assert!(children.is_empty() || sum == bytes, "{node}");
        bytes
    }
    assert_eq!(check(&page["tree"]), 2 * data.len() as u64);
    assert_eq!(page["tree"]["images"], 4);
    let outcomes: Vec<&Value> =
        page["gpus"][0]["groups"][0]["gpus"].as_array().expect("GPUs").iter().map(|gpu| &gpu["outcome"]).collect();
    assert!(
        outcomes.contains(&&Value::from("ptx 80")) && outcomes.contains(&&Value::from("no-binary")),
        "{outcomes:?}"
    );
    // The containers of both files run the same.
    assert_eq!(page["gpus"][0]["groups"][0]["containers"], 2);
}

#[test]
fn a_difference_has_what_differs() {
    let (old, new) = (fatbin(&[(80, 10), (90, 10)]), fatbin(&[(80, 10), (90, 5000), (100, 10)]));
    let page = json(&difference::page(&side("old", &old), &side("new", &new), "test", &str::to_owned));
    assert_eq!((&page["tree"]["old_bytes"], &page["tree"]["bytes"]), (&old.len().into(), &new.len().into()));
    let file = &page["tree"]["children"][0]["children"].as_array().expect("targets").clone();
    let names: Vec<&str> = file.iter().filter_map(|node| node["name"].as_str()).collect();
    // What is the same has no node.
    assert!(names.contains(&"sm_90") && names.contains(&"sm_100") && !names.contains(&"sm_80"), "{names:?}");
    let same = json(&difference::page(&side("old", &old), &side("new", &old), "test", &str::to_owned));
    assert_eq!(same["tree"].get("children"), None);
}

#[test]
fn bytes_that_no_gpu_needs_are_stated() {
    let none = json(&files::page(&[contents("a.fatbin", &fatbin(&[(80, 10), (90, 10)]))], "test", &str::to_owned));
    assert!(!none["facts"].to_string().contains("that no GPU takes"), "{}", none["facts"]);
    // Of PTX alike, the driver takes the last one on its own GPU and the first one on later GPUs.
    let twice = contents("a.fatbin", &fatbin(&[(80, 10), (80, 10), (80, 10), (90, 10)]));
    assert_eq!(twice.waste.unused_ptx, twice.images[1].row.size);
    let page = json(&files::page(&[twice], "test", &str::to_owned).titled("a.whl"));
    assert!(page["facts"].to_string().contains("bytes of PTX that no GPU takes"), "{}", page["facts"]);
    assert_eq!((&page["title"], &page["tree"]["name"]), (&"a.whl".into(), &"a.whl".into()));
}
