"""Prints figures of the JSON in a report, or checks that they are those of the commands' own JSON.

usage: data.py REPORT.html KEY...            values by their path in the JSON, such as tree.bytes
       data.py REPORT.html --as offload-bundle FILE   the figures of list, resources and explain
       data.py REPORT.html --as-link REPORT.json      the facts of --offload-report=json
"""

import json
import os
import re
import subprocess
import sys


def read(report):
    """The JSON in a report, as a browser would find it."""
    html = open(report, encoding="utf-8").read()
    [data] = re.findall(r'<script type="application/json" id="data">(.*?)</script>', html, re.DOTALL)
    return json.loads(data)


def cells(page, name):
    """The rows of a table as dictionaries, with their texts."""
    for table in page["tables"]:
        if table["id"] == name:
            for row in table["rows"]:
                named = {}
                for column, cell in zip(table["columns"], row):
                    if cell is not None and column["kind"] == "name":
                        shown, mangled = page["names"][cell]
                        cell = mangled or shown
                    elif cell is not None and column["kind"] == "text":
                        cell = page["texts"][cell]
                    named[column["key"]] = cell
                yield named


def command(program, name, file):
    done = subprocess.run([program, name, file, "--json"], capture_output=True, check=False)
    return json.loads(done.stdout)


def same(what, one, other):
    if one != other:
        sys.exit(f"{what}: {one} is not {other}")
    print(f"{what}: the same")


def compare(page, program, file):
    rows = command(program, "list", file)
    images = [(row["line"], row["size"], row["offset"], row["compression"]) for row in cells(page, "images")]
    same("list", images, [(at + 1, row["size"], row["offset"], row["compression"]) for at, row in enumerate(rows)])
    same("sizes", page["tree"]["bytes"], os.path.getsize(file))
    keys = {"code": "code", "registers": "registers", "stores": "spill_stores", "loads": "spill_loads", "stack": "stack",
            "shared": "shared", "constant": "constant", "parameters": "parameters", "barriers": "barriers"}
    ours = [[row["name"], row["target"], *(row[key] for key in keys)] for row in cells(page, "kernels")]
    theirs = [[one["name"], cubin["target"], *(one[key] for key in keys.values())]
              for cubin in command(program, "resources", file) for one in cubin["functions"]]
    same("resources", sorted(map(str, ours)), sorted(map(str, theirs)))
    code = sum(part["bytes"] for cubin in command(program, "resources", file) for part in cubin["parts"])
    same("bytes of functions and the rest", sum(parts(page["tree"])), code)
    containers = command(program, "explain", file)["containers"]
    ours = [json.dumps(group["gpus"]) for matrix in page["gpus"] for group in matrix["groups"] for _ in range(group["containers"])]
    same("explain", sorted(ours), sorted(json.dumps(one["gpus"]) for one in containers if one["gpus"]))


def compare_link(page, report):
    report = json.load(open(report, encoding="utf-8"))
    same("gpus", [group["gpus"] for matrix in page["gpus"] for group in matrix["groups"]], [report["gpus"]])
    inputs = [[row["target"], row["file"], row["offset"], row["image"], row["flag"]] for row in cells(page, "inputs")]
    theirs = [[target["target"], image["file"], image["offset"], image["code"], wish["ptx"]]
              for target in report["targets"] for image in target["images"] for wish in target["wishes"] if wish["file"] == image["file"]]
    same("inputs", inputs, theirs)
    backends = [[row["target"], row["backend"], row["reason"]] for row in cells(page, "backends")]
    same("backends", backends, [[one["target"], one["backend"]["name"], one["backend"]["reason"]] for one in report["targets"]])
    same("entries", [row["size"] for row in cells(page, "images")], [entry["bytes"] for entry in report["entries"]])


def parts(node):
    yield from (part[1] for part in node.get("parts", []))
    yield from (part[1] for function in node.get("functions", []) for part in function[2])
    for child in node.get("children", []):
        yield from parts(child)


def main():
    page = read(sys.argv[1])
    if sys.argv[2] == "--as":
        return compare(page, sys.argv[3], sys.argv[4])
    if sys.argv[2] == "--as-link":
        return compare_link(page, sys.argv[3])
    for path in sys.argv[2:]:
        value = page
        for key in path.split("."):
            value = value[int(key) if isinstance(value, list) else key]
        print(f"{path}: {json.dumps(value)}")


if __name__ == "__main__":
    main()
