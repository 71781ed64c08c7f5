"""Compares what `offload-bundle resources --json` says of kernels with the notes that llvm-readelf prints."""

import json
import re
import subprocess
import sys

(ours,) = json.load(open(sys.argv[1]))
notes = subprocess.run(["llvm-readelf", "--notes", sys.argv[2]], stdout=subprocess.PIPE, text=True, check=True).stdout
FIELDS = {
    "registers": "vgpr_count",
    "accumulation_registers": "agpr_count",
    "scalar_registers": "sgpr_count",
    "stack": "private_segment_fixed_size",
    "shared": "group_segment_fixed_size",
    "parameters": "kernarg_segment_size",
    "lanes": "wavefront_size",
}
theirs = {}
for kernel in re.split(r"\n  - (?=\.)", notes)[1:]:
    fields = dict(re.findall(r"^ *\.(\w+): +(\S+)$", kernel, re.M))
    row = {key: int(fields.get(name, 0)) for key, name in FIELDS.items()}
    theirs[fields["name"]] = row | {"spill_stores": 4 * int(fields["vgpr_spill_count"])}
found = {row["name"]: {key: row[key] for key in theirs[row["name"]]} for row in ours["functions"]}
assert found == theirs, f"{found}\n{theirs}"
for name, row in sorted(found.items()):
    print(name, *(f"{key}={value}" for key, value in row.items()))
