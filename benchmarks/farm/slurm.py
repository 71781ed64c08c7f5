"""fatlink-slurm with Slurm on one node: munged, slurmctld and slurmd, started for the test."""

import contextlib
import getpass
import os
import pathlib
import shutil
import signal
import socket
import subprocess
import time

from common import Failed, Server, check, descendants, free_port, install, run, wait_for

CONFIGURATION = """\
ClusterName=farm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmdPort={node}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdTimeout=10
KillWait=2
NodeName={host} NodeAddr=127.0.0.1 CPUs={cpus} State=UNKNOWN
PartitionName=farm Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


class Cluster:
    """One node with its controller."""

    def __init__(self, farm):
        install(["slurmctld", "slurmd", "slurm-client", "munge"])
        self.work = farm.work / "slurm"
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "state").mkdir(parents=True)
        (self.work / "spool").mkdir()
        # munged refuses folders that others may write to, and a key that others may read.
        self.work.chmod(0o755)
        key = self.work / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        host = socket.gethostname().split(".")[0]
        self.ports = {"controller": free_port(), "node": free_port()}
        (self.work / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, user=getpass.getuser(), work=self.work, cpus=os.cpu_count(), **self.ports))
        self.env = {"SLURM_CONF": str(self.work / "slurm.conf")}
        self.host = host
        self.servers = []

    def __enter__(self):
        try:
            munge = ["munged", "--foreground", "--force", f"--key-file={self.work}/munge.key", f"--socket={self.work}/munge.socket",
                     f"--pid-file={self.work}/munged.pid", f"--log-file={self.work}/munged.log",
                     f"--seed-file={self.work}/munged.seed"]
            self.munge = subprocess.Popen(munge, stdout=subprocess.DEVNULL, stderr=open(self.work / "munged.err", "ab"))
            wait_for(lambda: (self.work / "munge.socket").exists(), message="munged did not start")
            self.controller = self.start("slurmctld", "controller")
            self.node = self.start("slurmd", "node")
            wait_for(lambda: self.state().startswith("idle"), message="the node is not idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def start(self, program, port):
        server = Server([program, "-D", "-f", self.work / "slurm.conf"], self.ports[port], self.work / f"{program}.err",
                        env={**os.environ, **self.env})
        self.servers.append(server)
        return server

    def state(self):
        done = subprocess.run(["sinfo", "-h", "-o", "%T"], capture_output=True, text=True, env={**os.environ, **self.env})
        return done.stdout.strip()

    def step_daemons(self):
        """The daemons of this cluster's steps, which are no children of the node's."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, environment = (folder / "comm").read_text().strip(), (folder / "environ").read_bytes()
                if name == "slurmstepd" and f"SLURM_CONF={self.work}/".encode() in environment:
                    found.append(int(folder.name))
        return found

    def tasks(self):
        """The programs that run jobs."""
        return [pid for daemon in self.step_daemons() for pid, name in descendants(daemon) if name in ("fatlink", "ptxas")]

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.__exit__()
        self.munge.terminate()
        self.munge.wait()


def distributor(farm, *arguments):
    words = [f"--tasks={os.cpu_count()}", *arguments]
    return [f"--offload-distributor={farm.tool('fatlink-slurm')}", *(f"--offload-distributor-arg={word}" for word in words)]


def test(farm):
    with Cluster(farm) as cluster:
        for program in farm.programs:
            farm.test(f"slurm: {program}", lambda: usual(farm, cluster, program))
        farm.test("slurm: cache, cold and warm", lambda: cached(farm, cluster))
        farm.test("slurm: two links in one allocation", lambda: two_links(farm, cluster))
        farm.test("slurm: a job is killed", lambda: killed_job(farm, cluster))
        farm.test("slurm: no processors are free", lambda: busy(farm, cluster))
        farm.test("slurm: the node is lost", lambda: lost_node(farm, cluster))
        farm.test("slurm: the controller is lost", lambda: lost_controller(farm, cluster))


def usual(farm, cluster, program):
    link = farm.same(farm.link(program, distributor(farm), env=cluster.env), program)
    check(link.returned == 0 and link.elsewhere > 0, f"jobs came back: {link.messages}")
    steps = run(["scontrol", "show", "config"], env={**os.environ, **cluster.env}).count("ClusterName")
    check(steps == 1, "the controller does not answer")
    return f"{link.elsewhere} jobs in one step"


def cached(farm, cluster):
    folder = farm.work / "slurm-cache"
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [*distributor(farm), f"--offload-cache={folder}"]
    cold = farm.same(farm.link("cuda", arguments, env=cluster.env), "cuda")
    warm = farm.same(farm.link("cuda", arguments, env=cluster.env), "cuda")
    check(cold.elsewhere > 0 and warm.elsewhere == 0, warm.messages)


def two_links(farm, cluster):
    """Both in one allocation of the whole node."""
    commands = [farm.command(name, distributor(farm), farm.work / f"allocated-{name}") for name in farm.programs]
    quoted = " & ".join(" ".join(f"'{word}'" for word in map(str, command)) for command in commands) + " & wait"
    run(["salloc", "--quiet", f"--ntasks={os.cpu_count()}", "sh", "-c", quoted],
        env={**os.environ, **cluster.env, "PATH": f"/usr/lib/llvm-22/bin:{os.environ['PATH']}"})
    for name in farm.programs:
        image = (farm.work / f"allocated-{name}").read_bytes()
        check(image == farm.expected[name], f"{name}: the image differs from that of a local link")


def killed_job(farm, cluster):
    link = farm.start("cuda", distributor(farm), env=cluster.env)
    for pid in wait_for(cluster.tasks, message="no job ran"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    farm.same(link.end(), "cuda")
    return f"{link.elsewhere} jobs run elsewhere, {link.returned} here"


def busy(farm, cluster):
    holder = subprocess.Popen(["srun", f"--ntasks={os.cpu_count()}", "sleep", "120"], env={**os.environ, **cluster.env})
    try:
        wait_for(lambda: cluster.state().startswith("alloc"), message="the node is not busy")
        link = farm.same(farm.link("cuda", distributor(farm, "--immediate=2"), env=cluster.env), "cuda")
        check(link.elsewhere == 0 and "fatlink-slurm failed" in link.messages, link.messages)
    finally:
        holder.terminate()
        holder.wait()
    wait_for(lambda: cluster.state().startswith("idle"), message="the node is not idle")


def lost_node(farm, cluster):
    link = farm.start("cuda", distributor(farm), env=cluster.env)
    wait_for(cluster.tasks, message="no job ran")
    time.sleep(1)
    # The node's daemon, the daemons of its steps, and what they run.
    cluster.node.signal(signal.SIGKILL)
    for daemon in cluster.step_daemons():
        for pid in [*(child for child, _ in descendants(daemon)), daemon]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
    farm.same(link.end(), "cuda")
    return f"{link.elsewhere} jobs have results of the distributor, {link.returned} ran in the link"


def lost_controller(farm, cluster):
    cluster.controller.signal(signal.SIGKILL)
    link = farm.same(farm.link("cuda", distributor(farm, "--immediate=2"), env=cluster.env), "cuda")
    if link.elsewhere:
        raise Failed("there was nobody to run a job")
    check("fatlink-slurm failed" in link.messages, link.messages)
