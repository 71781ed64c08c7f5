//! The translation units of the corpora: which templates of benchmarks/include are instantiated, and for what.
//!
//! The repository holds these lists, and the sources are generated from them. Nothing is random: every run generates the same
//! units.

/// One translation unit.
#[derive(Clone, Debug, PartialEq)]
pub struct Unit {
    /// Stem of its source and its object.
    pub name: String,
    /// C++ source.
    pub source: String,
}

/// Translation units generated from one header.
struct Family {
    /// Stem of the header and start of the units' names.
    name: &'static str,
    /// Units in the large corpus.
    units: usize,
    /// How many of them are in the medium one.
    medium: usize,
    /// Instances in each unit.
    instances: usize,
    /// All possible instances; `@` stands for a name that is unique in the corpus.
    choices: fn() -> Vec<String>,
}

/// The program, and the device functions and variables that the other units use.
const LIBRARY: [(&str, &str); 5] = [
    ("main", include_str!("../../library/main.cu")),
    ("counters", include_str!("../../library/counters.cu")),
    ("state", include_str!("../../library/state.cu")),
    ("noise", include_str!("../../library/noise.cu")),
    ("closures", include_str!("../../library/closures.cu")),
];

/// Suffix of the folder with the objects of [`small`].
pub const SMALL: &str = "-small";
/// Suffix of the folder with the objects of [`hip_direct`].
pub const DIRECT: &str = "-direct";
/// Suffix of the folder with the object of [`changed`].
pub const VERSION: &str = "-changed";

const TYPES: &[&str] = &["float", "Vector3", "double", "int", "Moments", "unsigned long long"];
const NUMBERS: &[&str] = &["float", "int", "double", "unsigned long long", "short"];
const KEYS: &[&str] = &["unsigned", "double", "unsigned long long", "float", "unsigned short"];
const VALUES: &[&str] = &["int", "Vector3", "double"];
const OPERATORS: &[&str] = &["Sum", "Relaxed", "Largest"];

/// Species and reactions: the costs are as uneven as in simulation codes, where one kernel of a thousand takes a sixth
/// of the time.
const MECHANISMS: [(u32, u32); 7] = [(16, 32), (20, 40), (28, 48), (40, 72), (12, 24), (24, 44), (32, 56)];

const FAMILIES: [Family; 11] = [
    Family { name: "chemistry", units: 7, medium: 2, instances: 1, choices: mechanisms },
    Family {
        name: "flow",
        units: 12,
        medium: 3,
        instances: 5,
        choices: || {
            let fields = &["4", "5", "6", "8", "9", "12", "7", "10", "11", "13"];
            product("ADVANCE", &[&["float", "double"], &["5", "2", "1"], fields, &["1", "2"]])
        },
    },
    Family {
        name: "reduce",
        units: 12,
        medium: 3,
        instances: 4,
        choices: || {
            let algorithms = &["RAKING", "WARP_REDUCTIONS", "RAKING_COMMUTATIVE_ONLY"];
            product("REDUCE", &[TYPES, OPERATORS, &["128", "256"], &["4", "6"], algorithms])
        },
    },
    Family {
        name: "scan",
        units: 12,
        medium: 2,
        instances: 4,
        choices: || {
            product(
                "SCAN",
                &[TYPES, OPERATORS, &["128", "256"], &["4", "6"], &["RAKING", "WARP_SCANS", "RAKING_MEMOIZE"]],
            )
        },
    },
    Family { name: "sort", units: 13, medium: 3, instances: 7, choices: sorts },
    Family {
        name: "warp",
        units: 6,
        medium: 1,
        instances: 10,
        choices: || {
            let mut choices = product("WARP", &[TYPES, OPERATORS, &["32", "16", "8"], &["4"]]);
            choices.extend(product("WARP_SORT", &[NUMBERS, &["32", "16", "8"], &["4", "8"]]));
            choices
        },
    },
    Family { name: "select", units: 10, medium: 2, instances: 9, choices: selections },
    Family {
        name: "numbers",
        units: 9,
        medium: 1,
        instances: 8,
        choices: || {
            let maps = &["Power", "Wave", "Inverse", "Hyperbolic"];
            let mut choices = product("ITERATE", &[&["float", "double"], maps, &["8", "16", "24", "32", "48"]]);
            let engines = &["minstd_rand", "taus88", "ranlux24", "minstd_rand0", "ranlux48"];
            let distributions = &["normal_distribution", "uniform_real_distribution"];
            choices.extend(product("SAMPLE", &[engines, distributions, &["float", "double"]]));
            choices.extend(product(
                "SAMPLE",
                &[engines, &["uniform_int_distribution"], &["int", "long long", "unsigned"]],
            ));
            choices
        },
    },
    Family {
        name: "windows",
        units: 2,
        medium: 0,
        instances: 12,
        choices: || {
            product(
                "WINDOWS",
                &[&["float", "double"], &["4", "8", "12", "16", "20", "24", "28", "32", "48", "64", "6", "10"]],
            )
        },
    },
    Family { name: "device", units: 5, medium: 1, instances: 4, choices: device_algorithms },
    Family { name: "algorithms", units: 3, medium: 1, instances: 4, choices: thrust_algorithms },
];

/// The unit that another version exists of, for a relink after a change.
pub const CHANGED: &str = "flow_05";

/// Kernels in one unit of [`scale`].
pub const SCALE_STEP: usize = 100;

/// The 2 units of samples/two-tu.
pub fn small() -> Vec<Unit> {
    let kernel = include_str!("../../../samples/two-tu/kernel.cu");
    let helper = include_str!("../../../samples/two-tu/helper.cu");
    [("kernel", kernel), ("helper", helper)]
        .map(|(name, source)| Unit { name: name.into(), source: source.into() })
        .into()
}

/// 24 units.
pub fn medium() -> Vec<Unit> {
    library().chain(FAMILIES.iter().flat_map(|family| family.generate().into_iter().take(family.medium))).collect()
}

/// 96 units; those of [`medium`] are among them.
pub fn large() -> Vec<Unit> {
    library().chain(FAMILIES.iter().flat_map(Family::generate)).collect()
}

/// The other version of [`CHANGED`]: one constant in its kernels differs.
pub fn changed() -> Unit {
    let mut unit = large().into_iter().find(|unit| unit.name == CHANGED).expect("a unit of the large corpus");
    unit.source.insert_str(0, "#define FLOW_SAFETY 0.8\n");
    unit
}

/// Those units of [`large`] that use neither CUB nor Thrust, as HIP: shared functions, reactions and flows, for an AMD GPU.
pub fn hip() -> Vec<Unit> {
    let families = FAMILIES.iter().filter(|family| ["chemistry", "flow"].contains(&family.name));
    shared().into_iter().chain(families.flat_map(Family::generate)).map(as_hip).collect()
}

/// [`hip`] without calls through pointers.
pub fn hip_direct() -> Vec<Unit> {
    let direct = include_str!("../../library/direct_closures.cu");
    let direct = Unit { name: "closures".into(), source: direct.into() };
    hip().into_iter().map(|unit| if unit.name == direct.name { as_hip(direct.clone()) } else { unit }).collect()
}

/// The unit with what it needs of HIP's headers.
pub fn as_hip(unit: Unit) -> Unit {
    Unit { source: format!("#include \"hip.h\"\n{}", unit.source), ..unit }
}

/// 2,000 kernels of one size in 20 units.
pub fn scale() -> Vec<Unit> {
    let unit = |unit: usize| {
        let forms = unit * SCALE_STEP..(unit + 1) * SCALE_STEP;
        let lines: String = forms.map(|form| format!("RELAX({form})\n")).collect();
        Unit { name: format!("scale_{unit:02}"), source: format!("#include \"scale.cuh\"\n\n{lines}") }
    };
    (0..20).map(unit).collect()
}

/// Units of [`scale`] that [`dead_program`] is linked with.
pub const DEAD_UNITS: usize = 6;

/// A program that launches every third kernel of the first units of [`scale`].
pub fn dead_program() -> Unit {
    let kernels = (0..DEAD_UNITS * SCALE_STEP).step_by(3).map(|form| format!("relax_form<{form}>"));
    launching("dead_main", "scale.cuh", kernels)
}

/// Pairs of kernels in [`twins`].
pub const TWINS: usize = 3 * SCALE_STEP;

/// Kernels in pairs that differ in their names only, the first of each pair in three units and the second in three others.
pub fn twins() -> Vec<Unit> {
    let unit = |unit: usize| {
        let (twin, part) = (["First", "Second"][unit % 2], unit / 2);
        let forms = part * SCALE_STEP..(part + 1) * SCALE_STEP;
        let lines: String = forms.map(|form| format!("RELAX({form}, {twin})\n")).collect();
        Unit { name: format!("twins_{unit}"), source: format!("#include \"twins.cuh\"\n\n{lines}") }
    };
    (0..2 * TWINS / SCALE_STEP).map(unit).collect()
}

/// A program that launches all kernels of [`twins`].
pub fn twins_program() -> Unit {
    let kernels = (0..TWINS).flat_map(|form| ["First", "Second"].map(|twin| format!("relax_twin<{form}, {twin}>")));
    launching("twins_main", "twins.cuh", kernels)
}

/// A program that launches these kernels, which others instantiate from this header.
fn launching(name: &str, header: &str, kernels: impl Iterator<Item = String>) -> Unit {
    let (mut declared, mut listed) = (String::new(), String::new());
    for kernel in kernels {
        declared += &format!("extern template __global__ void {kernel}(const float *, float *, int, int);\n");
        listed += &format!("  {kernel},\n");
    }
    let source = format!(
        "#include <cstdio>\n#include \"{header}\"\n\n{declared}\n\
         static void (*const kernels[])(const float *, float *, int, int) = {{\n{listed}}};\n\n{LAUNCHES}"
    );
    Unit { name: name.into(), source }
}

/// Launches all kernels; ends with 77 where there is no GPU.
const LAUNCHES: &str = "int main() {
  float *p;
  if (cudaMallocManaged(&p, 1024) != cudaSuccess)
    return 77;
  for (auto kernel : kernels)
    kernel<<<1, 32>>>(p, p + 32, 32, 1);
  cudaError_t error = cudaDeviceSynchronize();
  puts(error == cudaSuccess && cudaGetLastError() == cudaSuccess ? \"PASS\" : \"FAIL\");
  return error != cudaSuccess;
}
";

/// The units that only define what others use; the program is not among them.
pub fn shared() -> Vec<Unit> {
    library().skip(1).collect()
}

/// The large corpus without the kernels that take far longer than all others.
pub fn flat() -> Vec<Unit> {
    large().into_iter().filter(|unit| !unit.name.starts_with("chemistry")).collect()
}

/// Units in the library of [`tests`].
const TESTED: usize = 60;

/// A library that many programs use, beside [`shared`]: two of three units of [`flat`], some of each kind.
pub fn library_of_tests() -> Vec<Unit> {
    let units: Vec<Unit> =
        flat().into_iter().filter(|unit| LIBRARY.iter().all(|(name, _)| unit.name != *name)).collect();
    let count = units.len();
    units
        .into_iter()
        .enumerate()
        .filter(|(at, _)| at * TESTED / count != (at + 1) * TESTED / count)
        .map(|(_, unit)| unit)
        .collect()
}

/// A unit with a small kernel for each program that uses the library.
pub fn tests(count: usize) -> Vec<Unit> {
    let unit = |number: usize| Unit {
        name: format!("test_{number:02}"),
        source: format!(
            "__global__ void check_{number}(float *p, int n) {{\n  \
             for (int i = threadIdx.x; i < n; i += blockDim.x)\n    p[i] = p[i] * {number}.5f + i;\n}}\n\
             void start_check(float *p) {{ check_{number}<<<1, 32>>>(p, 256); }}\n"
        ),
    };
    (0..count).map(unit).collect()
}

fn library() -> impl Iterator<Item = Unit> {
    LIBRARY.iter().map(|(name, source)| Unit { name: (*name).into(), source: (*source).into() })
}

impl Family {
    /// Spreads the choices evenly over the units, so that each has some of every kind.
    fn generate(&self) -> Vec<Unit> {
        let choices = (self.choices)();
        let needed = self.units * self.instances;
        assert!(needed <= choices.len(), "{} has {} choices for {needed} instances", self.name, choices.len());
        let line = |instance: usize| &choices[instance * choices.len() / needed];
        let unit = |unit: usize| {
            let name = format!("{}_{unit:02}", self.name);
            let mut source = format!("#include \"{}.cuh\"\n\n", self.name);
            for instance in 0..self.instances {
                source += &line(instance * self.units + unit).replace('@', &format!("{name}_{instance}"));
                source.push('\n');
            }
            Unit { name, source }
        };
        (0..self.units).map(unit).collect()
    }
}

/// A macro called with every combination of arguments.
fn product(name: &str, lists: &[&[&str]]) -> Vec<String> {
    let combine = |rows: Vec<String>, list: &&[&str]| -> Vec<String> {
        let separator = |row: &str| if row.is_empty() { "" } else { ", " };
        let extend =
            |row: &String| list.iter().map(|item| format!("{row}{}{item}", separator(row))).collect::<Vec<_>>();
        rows.iter().flat_map(extend).collect()
    };
    let rows = lists.iter().fold(vec![String::new()], combine);
    rows.iter().map(|arguments| format!("{name}({arguments})")).collect()
}

fn mechanisms() -> Vec<String> {
    MECHANISMS.iter().map(|(species, reactions)| format!("REACT({species}, {reactions})")).collect()
}

fn sorts() -> Vec<String> {
    let mut choices = product("RADIX_SORT", &[KEYS, VALUES, &["128", "256"], &["8", "12"], &["4", "5"]]);
    let keys = [KEYS, &["Vector3"]].concat();
    choices.extend(product("MERGE_SORT", &[&keys, VALUES, &["128", "256"], &["4", "8", "11"]]));
    choices
}

fn selections() -> Vec<String> {
    let mut choices =
        product("HISTOGRAM", &[NUMBERS, &["128", "256"], &["4", "8"], &["64", "128"], &["ATOMIC", "SORT"]]);
    choices.extend(product("COMPACT", &[NUMBERS, &["64", "128", "256"], &["4", "8", "12"]]));
    choices.extend(product("DECODE", &[NUMBERS, &["128", "256"], &["2", "4"], &["4", "8"]]));
    choices
}

fn device_algorithms() -> Vec<String> {
    let mut choices = product("DEVICE_RADIX_SORT", &[&["@"], &["unsigned", "double", "short"], &["int"]]);
    choices.extend(product("DEVICE_REDUCE", &[&["@"], &["float", "Vector3", "Moments"], &["Relaxed"]]));
    choices.extend(product("DEVICE_SCAN", &[&["@"], &["double", "Vector3", "int"], &["Sum"]]));
    choices.extend(product("DEVICE_MERGE_SORT", &[&["@"], &["Vector3", "float", "long long"], &["int"]]));
    choices.extend(product("DEVICE_UNIQUE", &[&["@"], &["int", "double", "short"]]));
    choices.extend(product("DEVICE_RUNS", &[&["@"], &["int", "double", "char"]]));
    choices.extend(product("DEVICE_HISTOGRAM", &[&["@"], &["float", "int", "double"]]));
    choices
}

fn thrust_algorithms() -> Vec<String> {
    let mut choices = product("THRUST_SORT", &[&["@"], &["int", "Vector3", "double"], &["float"]]);
    choices.extend(product("THRUST_PRESSURE", &[&["@"], &["float", "double"]]));
    choices.extend(product("THRUST_SUMS", &[&["@"], &["int", "long long"], &["float", "double"]]));
    choices.extend(product("THRUST_SCAN", &[&["@"], &["int", "long long"], &["float", "double"]]));
    choices.extend(product("THRUST_JITTER", &[&["@"], &["float", "double", "int"]]));
    choices
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn the_corpora_have_the_sizes_that_they_promise() {
        assert_eq!(medium().len(), 24);
        assert_eq!(large().len(), 96);
        assert!(medium().iter().all(|unit| large().contains(unit)));
        assert_eq!(scale().len() * SCALE_STEP, 2000);
        assert_eq!(library_of_tests().len(), TESTED);
        assert!(!large().contains(&changed()));
    }

    #[test]
    fn no_unit_and_no_instance_comes_twice() {
        let units = large();
        let names: HashSet<_> = units.iter().map(|unit| &unit.name).collect();
        assert_eq!(names.len(), units.len());
        let generated = &units[LIBRARY.len()..];
        let lines: Vec<_> = generated.iter().flat_map(|unit| unit.source.lines().skip(2)).collect();
        assert_eq!(lines.iter().collect::<HashSet<_>>().len(), lines.len());
    }

    #[test]
    fn products_are_whole() {
        assert_eq!(product("M", &[&["a", "b"], &["1", "2"]]), ["M(a, 1)", "M(a, 2)", "M(b, 1)", "M(b, 2)"]);
    }
}
