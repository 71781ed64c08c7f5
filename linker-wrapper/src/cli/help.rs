//! The texts of help, generated from the table of options.

use crate::cli::flags::Shape::Separate;
use crate::cli::flags::{ALWAYS, HOST, Meaning, Row, WRAPPER};

/// A text of help.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Help {
    /// How the program is run, and its most useful options.
    Brief,
    /// All documented options.
    Options,
    /// All options.
    Hidden,
}

/// What an option is about, in the order of the text.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Group {
    General,
    Image,
    DeviceLink,
    Output,
    Reports,
    Cache,
    Resources,
    Tools,
    Debugging,
    HostLinker,
}

const GROUPS: [(Group, &str); 10] = [
    (Group::General, "Help"),
    (Group::Image, "Machine code and PTX in the program"),
    (Group::DeviceLink, "Device link"),
    (Group::Output, "Other outputs"),
    (Group::Reports, "Reports"),
    (Group::Cache, "Caches and other machines"),
    (Group::Resources, "Processors and memory"),
    (Group::Tools, "Tools and libraries"),
    (Group::Debugging, "Debugging"),
    (Group::HostLinker, "Options of the host linker that concern the device link, too"),
];

/// The options of the brief text.
const USEFUL: [Meaning; 5] =
    [Meaning::OffloadPtx, Meaning::OffloadPlan, Meaning::OffloadReport, Meaning::OffloadCache, Meaning::Help];

const OVERVIEW: &str = "OVERVIEW: fatlink links the device code inside host objects, puts it into the program, and runs the host linker.\n\n";

impl Help {
    /// Generates the text for the name that the program was started by.
    pub fn text(self, program: &str) -> String {
        let usage = format!("{OVERVIEW}USAGE: {program} [options] -- <options to the host linker>\n");
        let sections = match self {
            Help::Brief => return usage + &brief(),
            Help::Options => GROUPS.map(|(group, title)| section(group, title, false)),
            Help::Hidden => GROUPS.map(|(group, title)| section(group, title, true)),
        };
        format!("{usage}\nOPTIONS:\n{}", sections.join("\n"))
    }
}

fn brief() -> String {
    let rows = || [WRAPPER, ALWAYS].into_iter().flatten();
    let useful = USEFUL.iter().filter_map(|meaning| rows().find(|row| row.2 == *meaning));
    let useful: String = useful.map(line).collect();
    format!(
        "\nCompilers run it in place of their linker, by the folders of its other names:\n  \
           clang++ -B <dist>/bin --offload-link <objects> -o <program>\n  \
           g++ -B <dist>/gcc <objects> -o <program>\n\nOPTIONS:\n{useful}"
    )
}

fn section(group: Group, title: &str, hidden: bool) -> String {
    let rows = [WRAPPER, ALWAYS, HOST].into_iter().flatten().filter(|row| {
        let is_value = matches!(row.2, Meaning::HostValue | Meaning::Root);
        !is_value && group_of(row.2) == group && (hidden || !row.4.is_empty())
    });
    format!("{title}:\n{}", rows.map(line).collect::<String>())
}

fn line(Row(spellings, shape, _, value, describe): &Row) -> String {
    let space = if *shape == Separate { " " } else { "" };
    let left = format!("  {}{space}{value}", spellings[0]);
    let gap = if left.len() > 30 { format!("\n{:31}", "") } else { " ".repeat(31 - left.len()) };
    format!("{}\n", format!("{left}{gap}{describe}").trim_end())
}

fn group_of(meaning: Meaning) -> Group {
    use Meaning as M;
    match meaning {
        M::Help | M::HelpHidden | M::Version => Group::General,
        M::OffloadPtx | M::IncludePtx | M::NoIncludePtx | M::OffloadSass | M::OffloadPtxVersion => Group::Image,
        M::OffloadCompress | M::OffloadDriver | M::FatbinSection | M::Compress | M::CompressionLevel => Group::Image,
        M::LlvmRules | M::OverrideImage | M::EmbedBitcode => Group::Image,
        M::OffloadBackend | M::DeviceLinker | M::DeviceCompiler | M::LlvmOption | M::NoLto => Group::DeviceLink,
        M::ShouldExtract | M::PartitionSize | M::OffloadGc | M::OffloadIcf | M::OffloadCheck => Group::DeviceLink,
        M::HostTriple => Group::DeviceLink,
        M::Dlink | M::TranslateNvcc | M::EmitFatbinOnly | M::OffloadRelocatable => Group::Output,
        M::OffloadReport | M::OffloadPlan | M::OffloadStats | M::TimeTrace | M::TimeTraceGranularity => Group::Reports,
        M::OffloadCache | M::OffloadCacheSize | M::OffloadCacheRemote | M::OffloadCacheRemoteMode => Group::Cache,
        M::OffloadCacheRemoteTimeout | M::OffloadCacheKeyFile => Group::Cache,
        M::OffloadDistributor | M::OffloadDistributorArgument => Group::Cache,
        M::Jobs | M::OffloadMemory => Group::Resources,
        M::LinkerPath | M::CudaPath | M::PartPath(_) | M::PrintToolchain | M::NoCanonicalPrefixes => Group::Tools,
        M::DryRun | M::Verbose | M::SaveTemps | M::SaveTempsIn | M::Reproduce | M::PrintWrappedModule => {
            Group::Debugging
        }
        M::Sysroot | M::Output | M::LibraryPath | M::Library | M::Relocatable | M::HostValue | M::Root => {
            Group::HostLinker
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_documented_option_is_there_once() {
        let text = Help::Options.text("fatlink");
        assert!(text.contains("\nUSAGE: fatlink [options] -- <options to the host linker>\n"), "{text}");
        for row in [WRAPPER, ALWAYS, HOST].into_iter().flatten().filter(|row| !row.4.is_empty()) {
            assert_eq!(text.matches(&line(row)).count(), 1, "{}", row.0[0]);
        }
        assert!(GROUPS.iter().all(|(_, title)| text.contains(&format!("\n{title}:\n  -"))), "{text}");
    }

    #[test]
    fn the_brief_text_fits_a_screen() {
        let text = Help::Brief.text("fatlink");
        assert!(text.lines().count() < 24 && text.contains("  --help "), "{text}");
    }
}
