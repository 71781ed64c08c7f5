//! NVIDIA's products by the names that people know, with their architecture, as NVIDIA's list of compute capabilities has them
//! (developer.nvidia.com/cuda-gpus).

use super::GpuArch;

/// Names in lower case without spaces and hyphens, without [`MAKERS`] and [`FORMS`].
const PRODUCTS: &[(u32, &[&str])] = &[
    (70, &["v100", "titanv"]),
    (72, &["xavier", "agxxavier", "xaviernx"]),
    (75, &["t4", "t4g", "titanrtx", "rtx8000", "rtx6000", "rtx5000", "rtx4000", "t2000", "t1000", "t600", "t400"]),
    (75, &["rtx2080ti", "rtx2080", "rtx2070", "rtx2060", "gtx1660ti", "gtx1660", "gtx1650"]),
    (80, &["a100", "a100x", "a800", "a30", "a30x"]),
    (86, &["a40", "a16", "a10", "a10g", "a2", "rtxa6000", "rtxa5500", "rtxa5000", "rtxa4500", "rtxa4000", "rtxa2000"]),
    (86, &["rtx3090ti", "rtx3090", "rtx3080ti", "rtx3080", "rtx3070ti", "rtx3070", "rtx3060ti", "rtx3060", "rtx3050"]),
    (87, &["orin", "agxorin", "orinnx", "orinnano"]),
    (89, &["l4", "l20", "l40", "l40s", "rtx6000ada", "rtx5000ada", "rtx4500ada", "rtx4000ada", "rtx2000ada"]),
    (
        89,
        &[
            "rtx4090",
            "rtx4080super",
            "rtx4080",
            "rtx4070ti",
            "rtx4070super",
            "rtx4070",
            "rtx4060ti",
            "rtx4060",
            "rtx4050",
        ],
    ),
    (90, &["h100", "h100nvl", "h200", "h200nvl", "h20", "h800", "gh200"]),
    (100, &["b100", "b200", "gb200"]),
    (103, &["b300", "gb300"]),
    (107, &["vr200"]),
    (110, &["thor", "agxthor", "t5000"]),
    (120, &["rtxpro6000", "rtxpro5000", "rtxpro4500", "rtxpro4000", "rtxpro2000"]),
    (120, &["rtx5090", "rtx5080", "rtx5070ti", "rtx5070", "rtx5060ti", "rtx5060", "rtx5050"]),
    (121, &["gb10", "dgxspark"]),
];

/// Words in front of a product.
const MAKERS: [&str; 5] = ["nvidia", "geforce", "tesla", "quadro", "jetson"];

/// Words behind a product that tell how it is built, in the names that the driver prints, beside sockets (`SXM5`) and memory (`80GB`, `HBM3`).
const FORMS: [&str; 6] = ["pcie", "generation", "laptop", "gpu", "max", "q"];

/// The architecture of a product: sm_90 of `H100` and `NVIDIA H100 80GB HBM3`, sm_89 of `GeForce RTX 4090` and `rtx-4090`.
pub fn arch_of_product(name: &str) -> Option<GpuArch> {
    let name = plain(name);
    let row = PRODUCTS.iter().find(|(_, names)| names.contains(&name.as_str()))?;
    Some(GpuArch::plain(row.0))
}

/// The names of all products, as [`arch_of_product`] compares them.
pub fn product_names() -> impl Iterator<Item = &'static str> {
    PRODUCTS.iter().flat_map(|(_, names)| names.iter().copied())
}

fn plain(name: &str) -> String {
    let name = name.to_lowercase();
    let is_memory =
        |word: &str| word.strip_suffix("gb").is_some_and(|size| size.bytes().all(|byte| byte.is_ascii_digit()));
    let is_form =
        |word: &str| FORMS.contains(&word) || word.starts_with("sxm") || word.starts_with("hbm") || is_memory(word);
    name.split([' ', '-', '_']).filter(|word| !MAKERS.contains(word) && !is_form(word)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::arch::table::KNOWN;

    #[test]
    fn products_have_the_architecture_of_their_name() {
        for (name, number) in [
            ("H100", 90),
            ("NVIDIA H100", 90),
            ("L4", 89),
            ("Tesla T4", 75),
            ("GeForce RTX 4090", 89),
            ("NVIDIA GeForce RTX 3080 Ti", 86),
            ("rtx-a6000", 86),
            ("Jetson AGX Orin", 87),
            ("NVIDIA H100 80GB HBM3", 90),
            ("A100-SXM4-80GB", 80),
            ("Tesla V100-SXM2-16GB", 70),
            ("NVIDIA RTX 6000 Ada Generation", 89),
            ("NVIDIA GeForce RTX 4090 Laptop GPU", 89),
        ] {
            assert_eq!(arch_of_product(name), Some(GpuArch::plain(number)), "{name}");
        }
        for name in ["", "H10", "NVIDIA", "sm_90", "RTX"] {
            assert_eq!(arch_of_product(name), None, "{name}");
        }
    }

    #[test]
    fn each_product_is_named_once_and_its_architecture_known() {
        let mut names: Vec<&str> = product_names().collect();
        let count = names.len();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), count);
        assert!(names.iter().all(|name| plain(name) == **name));
        assert!(PRODUCTS.iter().all(|(number, _)| KNOWN.knows(GpuArch::plain(*number))));
    }
}
