"""A distributor: runs the jobs of a list in the format of LLVM's distributed ThinLTO, each in a folder of its own that has nothing but
the declared inputs. The list is checked as LLVM's validator does it. `--fault=` names what goes wrong:

  fail      ends with an error after the first job
  lose      takes the result of the last job away
  damage    changes a byte of the last job's result
  truncate  cuts the last job's result
  exchange  gives the last job the result of the first one
  tool      changes ptxas before the jobs run
  zeros     leaves a link to a device without an end in place of the last job's result
  fifo      leaves a FIFO there
  words     prints 300 MB on both outputs
  daemon    leaves a program behind that holds the outputs; its number is in the file daemon
"""

import json
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile


def checked(jobs):
    """The list's common part and its jobs, if it has exactly the keys of the format."""
    def strings(value, least):
        return isinstance(value, list) and len(value) >= least and all(isinstance(one, str) for one in value)

    assert set(jobs) == {"common", "jobs"}, jobs.keys()
    common = jobs["common"]
    assert set(common) == {"linker_output", "args", "inputs"}, common.keys()
    assert isinstance(common["linker_output"], str)
    assert strings(common["args"], 1) and strings(common["inputs"], 0)
    for job in jobs["jobs"]:
        assert set(job) == {"args", "inputs", "outputs"}, job.keys()
        assert strings(job["args"], 1) and strings(job["inputs"], 2) and strings(job["outputs"], 1)
    return common, jobs["jobs"]


def run(common, job, fault):
    """Runs a job in a folder of its own, and returns its exit code."""
    inputs, (output,) = common["inputs"] + job["inputs"], job["outputs"]
    with tempfile.TemporaryDirectory() as folder:
        place = {path: os.path.join(folder, os.path.basename(path)) for path in inputs + [output]}
        for path in inputs:
            shutil.copy(path, place[path])
        if fault == "tool":
            with open(os.path.join(folder, "ptxas"), "ab") as tool:
                tool.write(b"x")
        words = common["args"][1:] + job["args"]
        command = common["args"][:1] + [place.get(word, word) for word in words]
        done = subprocess.run(command, cwd=folder)
        if done.returncode == 0:
            shutil.copy(place[output], output)
        return done.returncode


def main():
    faults = [word.removeprefix("--fault=") for word in sys.argv[1:-1]]
    fault = faults[0] if faults else ""
    common, jobs = checked(json.loads(pathlib.Path(sys.argv[-1]).read_text()))
    codes = [run(common, job, fault) for job in (jobs[:1] if fault == "fail" else jobs)]
    if fault == "fail":
        sys.exit("the farm is closed")
    first, last = pathlib.Path(jobs[0]["outputs"][0]), pathlib.Path(jobs[-1]["outputs"][0])
    if fault == "lose":
        last.unlink()
    elif fault == "damage":
        content = bytearray(last.read_bytes())
        content[len(content) // 2] ^= 1
        last.write_bytes(content)
    elif fault == "truncate":
        last.write_bytes(last.read_bytes()[:-9])
    elif fault == "exchange":
        last.write_bytes(first.read_bytes())
    elif fault == "zeros":
        last.unlink()
        last.symlink_to("/dev/zero")
    elif fault == "fifo":
        last.unlink()
        os.mkfifo(last)
    elif fault == "words":
        last.unlink()
        for output in (sys.stdout, sys.stderr):
            for _ in range(150):
                output.write("many words\n" * 100000)
        sys.exit("the last word")
    elif fault == "daemon":
        pathlib.Path("daemon").write_text(str(subprocess.Popen(["sleep", "900"]).pid))
    sys.exit(max(codes))


main()
