//! What each GPU runs, for groups of containers with the same outcomes: a library may have thousands.

use std::collections::HashMap;

use offload_bundle::coverage::{Basis, ContainerReport, GpuReport, Platform, places_by_file};
use serde::Serialize;

use crate::contents::FileContents;

/// What GPUs run of the containers of files.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct GpuMatrix {
    /// Its heading.
    pub title: String,
    /// The driver that the outcomes are for.
    pub driver: String,
    /// Containers with the same outcomes and reasons, those of the most containers first.
    pub groups: Vec<Group>,
    /// How many containers are parts of others, which no driver loads by themselves.
    pub parts: usize,
}

/// Containers of which the same is to be said.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Group {
    /// Where they are: `lib.so: 1-54`.
    pub places: String,
    /// Their number.
    pub containers: usize,
    /// Whose runtime loads them.
    pub platform: Platform,
    /// What the prediction rests on.
    pub basis: Basis,
    /// What they are for.
    pub role: &'static str,
    /// Their entries.
    pub entries: Vec<String>,
    /// The outcome on each GPU.
    pub gpus: Vec<GpuReport>,
}

impl GpuMatrix {
    /// The matrix of files.
    pub fn new(title: impl Into<String>, files: &[FileContents]) -> Self {
        let has_one = files.len() == 1;
        let driver = files.first().map(|file| file.explained.driver.clone()).unwrap_or_default();
        let all = files.iter().flat_map(|file| {
            let name = (!has_one).then_some(file.name.as_str());
            file.explained.containers.iter().map(move |container| (name, container))
        });
        let (parts, loaded): (Vec<_>, Vec<_>) = all.partition(|(_, container)| container.gpus.is_empty());
        Self { title: title.into(), driver, groups: groups(&loaded), parts: parts.len() }
    }

    /// Whether there is nothing to show.
    pub fn is_empty(&self) -> bool {
        self.groups.is_empty()
    }
}

/// The file's name, if there are several, and the container.
type Found<'f> = (Option<&'f str>, &'f ContainerReport);

fn groups(all: &[Found<'_>]) -> Vec<Group> {
    let mut places: HashMap<String, usize> = HashMap::new();
    let mut groups: Vec<Vec<&Found<'_>>> = Vec::new();
    for found in all {
        let ContainerReport { platform, role, entries, gpus, .. } = found.1;
        let place = *places.entry(format!("{platform:?} {} {entries:?} {gpus:?}", role.role)).or_insert(groups.len());
        match groups.get_mut(place) {
            Some(group) => group.push(found),
            None => groups.push(vec![found]),
        }
    }
    let mut groups: Vec<Group> = groups.iter().filter_map(|group| Group::new(group)).collect();
    groups.sort_by_key(|group| std::cmp::Reverse(group.containers));
    groups
}

impl Group {
    fn new(found: &[&Found<'_>]) -> Option<Self> {
        let (_, first) = found.first()?;
        Some(Self {
            places: places_by_file(found.iter().map(|(file, container)| (*file, container.place.container))),
            containers: found.len(),
            platform: first.platform,
            basis: first.basis,
            role: first.role.role,
            entries: first.entries.clone(),
            gpus: first.gpus.clone(),
        })
    }
}
