"""fatlink-slurm with Slurm: munged, slurmctld and a slurmd for each node, started for the test. All nodes are this machine, of which each
has its own processors."""

import contextlib
import getpass
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess

from common import LLVM, Failed, Server, check, descendants, free_port, install, run, wait_for

CONFIGURATION = """\
ClusterName=farm
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser={user}
SlurmdUser={user}
AuthType=auth/munge
AuthInfo=socket={work}/munge.socket
CryptoType=crypto/munge
StateSaveLocation={work}/state
SlurmdSpoolDir={work}/spool-%n
SlurmctldPidFile={work}/slurmctld.pid
SlurmdPidFile={work}/slurmd-%n.pid
SlurmctldLogFile={work}/slurmctld.log
SlurmdLogFile={work}/slurmd-%n.log
PluginDir=/usr/lib/x86_64-linux-gnu/slurm-wlm
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
SelectType=select/cons_tres
SelectTypeParameters=CR_Core
ReturnToService=2
MpiDefault=none
SlurmdTimeout=10
KillWait=2
SlurmdParameters=config_overrides
{communication}
{nodes}
PartitionName=farm Nodes=ALL Default=YES MaxTime=INFINITE State=UP
"""


NODE = "NodeName={name} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs={processors} State=UNKNOWN"


def communication():
    """On a machine whose only interface is the loopback, the C library finds 127.0.0.1 for programs that take IPv6, too, and for no others."""
    try:
        socket.getaddrinfo("127.0.0.1", None, family=socket.AF_INET, flags=socket.AI_ADDRCONFIG)
        return ""
    except socket.gaierror:
        return "CommunicationParameters=EnableIPv6"


class Node:
    """A part of this machine's processors."""

    def __init__(self, number, processors):
        self.name, self.processors, self.port, self.server = f"node{number}", processors, free_port(), None

    def step_daemons(self, work):
        """The daemons of steps here, which are no children of the node's."""
        found = []
        for folder in pathlib.Path("/proc").glob("[0-9]*"):
            with contextlib.suppress(OSError):
                name, environment = (folder / "comm").read_text().strip(), (folder / "environ").read_bytes().split(b"\0")
                if name == "slurmstepd" and {f"FARM_NODE={work}/{self.name}".encode()} <= set(environment):
                    found.append(int(folder.name))
        return found

    def lose(self, work):
        """Kills its daemon, the daemons of its steps, and what they run."""
        self.server.signal(signal.SIGKILL)
        for daemon in self.step_daemons(work):
            for pid in [*(child for child, _ in descendants(daemon)), daemon]:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)


class Cluster:
    """Nodes that share the processors, and their controller."""

    def __init__(self, farm, nodes):
        install(["slurmctld", "slurmd", "slurm-client", "munge"])
        self.work = farm.work / "slurm"
        shutil.rmtree(self.work, ignore_errors=True)
        (self.work / "state").mkdir(parents=True)
        # munged refuses folders that others may write to, and a key that others may read.
        self.work.chmod(0o755)
        key = self.work / "munge.key"
        key.write_bytes(os.urandom(1024))
        key.chmod(0o400)
        available = sorted(os.sched_getaffinity(0))
        share = len(available) // nodes
        self.nodes = [Node(number, available[number * share:(number + 1) * share]) for number in range(nodes)]
        self.processors = nodes * share
        self.controller_port = free_port()
        host = socket.gethostname().split(".")[0]
        (self.work / "slurm.conf").write_text(CONFIGURATION.format(
            host=host, user=getpass.getuser(), work=self.work, controller=self.controller_port,
            communication=communication(), nodes="\n".join(
                NODE.format(name=node.name, host=host, port=node.port, processors=share) for node in self.nodes)))
        # The plugin that is loaded by default looks for control groups, which containers often hide; this one touches none, as none are used.
        (self.work / "cgroup.conf").write_text("CgroupPlugin=cgroup/v1\n")
        self.env = {"SLURM_CONF": str(self.work / "slurm.conf"), "PATH": f"/usr/sbin:/usr/bin:{LLVM}:{os.environ['PATH']}"}
        self.munge, self.servers = None, []

    def __enter__(self):
        try:
            munge = ["/usr/sbin/munged", "--foreground", "--force", f"--key-file={self.work}/munge.key",
                     f"--socket={self.work}/munge.socket", f"--pid-file={self.work}/munged.pid", f"--log-file={self.work}/munged.log",
                     f"--seed-file={self.work}/munged.seed", "--origin=127.0.0.1"]
            self.munge = subprocess.Popen(list(map(str, munge)), stdout=subprocess.DEVNULL, stderr=open(self.work / "munged.err", "ab"))
            wait_for(lambda: (self.work / "munge.socket").exists(), message="munged did not start")
            self.controller = self.start("slurmctld", [], self.controller_port, "slurmctld")
            for node in self.nodes:
                (self.work / f"spool-{node.name}").mkdir()
                self.start_node(node)
            wait_for(self.idle, message="not all nodes are idle")
        except BaseException:
            self.__exit__()
            raise
        return self

    def restart(self, node):
        """Starts a node again that was lost."""
        self.start_node(node)
        wait_for(self.idle, limit=60, message="not all nodes are idle")

    def start_node(self, node):
        node.server = self.start("slurmd", ["-N", node.name], node.port, node.name, node)

    def start(self, program, words, port, name, node=None):
        # What a node's daemon starts has its processors and its environment.
        processors, own = (node.processors, {"FARM_NODE": f"{self.work}/{name}"}) if node else (os.sched_getaffinity(0), {})
        server = Server([f"/usr/sbin/{program}", "-D", "-f", self.work / "slurm.conf", *words], port,
                        self.work / f"{name}.err", env={**os.environ, **self.env, **own},
                        preexec_fn=lambda: os.sched_setaffinity(0, processors))
        self.servers.append(server)
        return server

    def states(self):
        """The states of the nodes."""
        words = ["sinfo", "--noheader", "--Node", "--format=%T"]
        return subprocess.run(words, capture_output=True, text=True, env={**os.environ, **self.env}).stdout.split()

    def idle(self):
        return self.states() == ["idle"] * len(self.nodes)

    def tasks(self, nodes=None):
        """The programs that run jobs."""
        daemons = [daemon for node in nodes or self.nodes for daemon in node.step_daemons(self.work)]
        return [pid for daemon in daemons for pid, name in descendants(daemon) if name in ("fatlink", "ptxas")]

    def __exit__(self, *_):
        for server in reversed(self.servers):
            server.__exit__()
        if self.munge:
            self.munge.terminate()
            self.munge.wait()


def distributor(farm, cluster, *arguments):
    words = [f"--tasks={cluster.processors}", "--verbose", *arguments]
    return [f"--offload-distributor={farm.tool('fatlink-slurm')}", *(f"--offload-distributor-arg={word}" for word in words)]


def jobs_of_nodes(link):
    """How many jobs each node has begun and how many of these have results."""
    found = re.findall(r"fatlink-slurm: (\S+): (\d+) of (\d+) jobs have results", link.messages)
    return {node: (int(begun), int(done)) for node, done, begun in found}


def test(farm):
    # One node needs a processor of its own.
    with Cluster(farm, nodes=min(2, len(os.sched_getaffinity(0)))) as cluster:
        for program in farm.programs:
            farm.test(f"slurm: {program}", lambda: usual(farm, cluster, program))
        farm.test("slurm: cache, cold and warm", lambda: cached(farm, cluster))
        farm.test("slurm: two links in one allocation", lambda: two_links(farm, cluster))
        farm.test("slurm: a job is killed", lambda: killed_job(farm, cluster))
        farm.test("slurm: no processors are free", lambda: busy(farm, cluster))
        farm.test("slurm: a node is lost", lambda: lost_node(farm, cluster, 2, is_noticed=True))
        cluster.restart(cluster.nodes[-1])
        farm.test("slurm: a node is lost, and Slurm says so", lambda: lost_node(farm, cluster, 600, is_noticed=False))
        farm.test("slurm: the controller is lost", lambda: lost_controller(farm, cluster))


def usual(farm, cluster, program):
    link = farm.same(farm.link(program, distributor(farm, cluster), env=cluster.env), program)
    check(link.returned == 0 and link.elsewhere > 0, f"jobs came back: {link.messages}")
    steps = run(["scontrol", "show", "config"], env={**os.environ, **cluster.env}).count("ClusterName")
    check(steps == 1, "the controller does not answer")
    nodes = jobs_of_nodes(link)
    check(sum(done for _, done in nodes.values()) == link.elsewhere, link.messages)
    check(len(nodes) == len(cluster.nodes), f"a node had no job: {link.messages}")
    return f"{link.elsewhere} jobs in one step: {nodes_text(nodes)}"


def nodes_text(nodes):
    return ", ".join(f"{name} {done} of {begun}" for name, (begun, done) in nodes.items())


def cached(farm, cluster):
    folder = farm.work / "slurm-cache"
    shutil.rmtree(folder, ignore_errors=True)
    arguments = [*distributor(farm, cluster), f"--offload-cache={folder}"]
    cold = farm.same(farm.link("cuda", arguments, env=cluster.env), "cuda")
    warm = farm.same(farm.link("cuda", arguments, env=cluster.env), "cuda")
    check(cold.elsewhere > 0 and warm.elsewhere == 0, warm.messages)


def two_links(farm, cluster):
    """Both in one allocation of all processors."""
    commands = [farm.command(name, distributor(farm, cluster), farm.work / f"allocated-{name}") for name in farm.programs]
    quoted = " & ".join(" ".join(f"'{word}'" for word in map(str, command)) for command in commands) + " & wait"
    run(["salloc", "--quiet", f"--ntasks={cluster.processors}", "sh", "-c", quoted], env={**os.environ, **cluster.env})
    for name in farm.programs:
        image = (farm.work / f"allocated-{name}").read_bytes()
        check(image == farm.expected[name], f"{name}: the image differs from that of a local link")


def killed_job(farm, cluster):
    link = farm.start("cuda", distributor(farm, cluster), env=cluster.env)
    for pid in wait_for(cluster.tasks, message="no job ran"):
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)
    farm.same(link.end(), "cuda")
    return f"{link.elsewhere} jobs run elsewhere, {link.returned} here"


def busy(farm, cluster):
    holder = subprocess.Popen(["srun", f"--ntasks={cluster.processors}", "sleep", "120"], env={**os.environ, **cluster.env})
    try:
        wait_for(lambda: set(cluster.states()) == {"allocated"}, message="not all nodes are busy")
        link = farm.same(farm.link("cuda", distributor(farm, cluster, "--immediate=2"), env=cluster.env), "cuda")
        check(link.elsewhere == 0 and "fatlink-slurm failed" in link.messages, link.messages)
    finally:
        holder.terminate()
        holder.wait()
    wait_for(cluster.idle, message="not all nodes are idle")


def lost_node(farm, cluster, patience, is_noticed):
    """The others go on: only the jobs that the lost node had run in the link."""
    lost = cluster.nodes[-1]
    link = farm.start("cuda", distributor(farm, cluster, f"--patience={patience}"), env=cluster.env)
    wait_for(lambda: cluster.tasks([lost]), message="no job ran there")
    lost.lose(cluster.work)
    farm.same(link.end(), "cuda")
    nodes = jobs_of_nodes(link)
    if len(cluster.nodes) > 1:
        begun, done = nodes[lost.name]
        check(0 < link.returned == begun - done <= len(lost.processors), f"{link.returned} jobs came back: {link.messages}")
    check(is_noticed == ("no sign of life from" in link.messages), link.messages)
    return f"{nodes_text(nodes)} jobs have results, {link.returned} ran in the link"


def lost_controller(farm, cluster):
    cluster.controller.signal(signal.SIGKILL)
    link = farm.same(farm.link("cuda", distributor(farm, cluster, "--immediate=2"), env=cluster.env), "cuda")
    if link.elsewhere:
        raise Failed("there was nobody to run a job")
    check("fatlink-slurm failed" in link.messages, link.messages)
