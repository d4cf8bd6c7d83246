#!/usr/bin/env python3
"""Checks the examples for Kubernetes without a cluster: what the schemas of their kinds require, and
that each command that a pod runs is one that ftrun understands.

No cluster runs them in this test. kubernetes_test.py --ftrun FTRUN
"""

import argparse
import os
import re
import subprocess
import sys
import unittest

try:
    import yaml
except ImportError:
    sys.exit(77)  # the test is skipped

OPTIONS = argparse.Namespace()
SOURCES = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
DIRECTORY = f"{SOURCES}/examples/kubernetes"
DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")

# The fields of each kind that these examples use. A typing error would be dropped by a cluster, or
# refused.
POD = {"containers", "volumes", "restartPolicy", "terminationGracePeriodSeconds", "securityContext"}
CONTAINER = {"name", "image", "command", "args", "env", "ports", "resources", "volumeMounts"}
JOB = {"parallelism", "completions", "completionMode", "backoffLimit", "template"}
VOLUMES = {"secret": "secretName", "persistentVolumeClaim": "claimName", "emptyDir": None}


class Strict(yaml.SafeLoader):
    """Refuses a key that is given twice."""

    def construct_mapping(self, node, deep=False):
        keys = [self.construct_object(key, deep) for key, _ in node.value]
        assert len(keys) == len(set(keys)), f"a key is given twice: {keys}"
        return super().construct_mapping(node, deep)


def load(name):
    with open(f"{DIRECTORY}/{name}", encoding="ascii") as file:
        return yaml.load(file, Loader=Strict)


class Kubernetes(unittest.TestCase):
    def has_only(self, value, fields, where):
        self.assertEqual(set(value) - set(fields), set(), f"unknown fields of {where}")

    def is_kind(self, document, version, kind):
        self.has_only(document, {"apiVersion", "kind", "metadata", "spec"}, kind)
        self.assertEqual((document["apiVersion"], document["kind"]), (version, kind))
        self.assertTrue(DNS_LABEL.fullmatch(document["metadata"]["name"]))

    def check_pod(self, pod, policies):
        """Returns its only container."""
        self.has_only(pod, POD, "the pod")
        self.assertIn(pod.get("restartPolicy"), policies)
        # Under another profile neither --survive host nor --checkpoint-dir works (docs/containers.md).
        if "securityContext" in pod:
            self.assertEqual(pod["securityContext"], {"seccompProfile": {"type": "Unconfined"}})
        (container,) = pod["containers"]
        self.has_only(container, CONTAINER, "the container")
        self.assertTrue(DNS_LABEL.fullmatch(container["name"]) and container["image"])
        for word in [*container["command"], *container["args"]]:
            self.assertIsInstance(word, str)
        for variable in container.get("env", []):
            self.assertRegex(variable["name"], r"^[A-Z_]+$")
            self.assertIsInstance(variable["value"], str)
        for port in container.get("ports", []):
            self.assertTrue(DNS_LABEL.fullmatch(port["name"]) and len(port["name"]) <= 15)
            self.assertTrue(0 < port["containerPort"] < 65536)
        volumes = {volume["name"]: volume for volume in pod.get("volumes", [])}
        mounted = {mount["name"] for mount in container.get("volumeMounts", [])}
        self.assertEqual(mounted, set(volumes), "volumes and their mounts")
        for volume in volumes.values():
            (kind,) = set(volume) - {"name"}
            self.assertTrue(VOLUMES[kind] is None or VOLUMES[kind] in volume[kind])
        return container

    def check_options(self, words):
        """Each option is in ftrun's help; returns the words by option."""
        agent = words[:2] == ["ftrun", "agent"]
        command = [OPTIONS.ftrun, *(["agent"] if agent else []), "-h"]
        text = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
        known = set(re.findall(r"--[a-z][-a-z]+", text))
        given = {}
        for i, word in enumerate(words):
            if word.startswith("--"):
                self.assertIn(word, known)
                given[word] = words[i + 1] if i + 1 < len(words) else ""
        return given

    def test_mpijob(self):
        document = load("mpijob.yaml")
        self.is_kind(document, "kubeflow.org/v2beta1", "MPIJob")
        spec = document["spec"]
        self.has_only(spec, {"slotsPerWorker", "mpiImplementation", "runPolicy", "mpiReplicaSpecs"}, "the MPIJob")
        self.assertEqual(spec["mpiImplementation"], "OpenMPI")  # which sets the variable that ftrun reads
        self.assertIsInstance(spec["slotsPerWorker"], int)
        self.has_only(spec["runPolicy"], {"cleanPodPolicy", "backoffLimit"}, "its runPolicy")
        self.assertIn(spec["runPolicy"]["cleanPodPolicy"], {"Running", "All", "None"})
        self.assertEqual(set(spec["mpiReplicaSpecs"]), {"Launcher", "Worker"})
        for replica in spec["mpiReplicaSpecs"].values():
            self.has_only(replica, {"replicas", "restartPolicy", "template"}, "the replica")
            self.assertEqual(set(replica["template"]), {"spec"})
        launcher = spec["mpiReplicaSpecs"]["Launcher"]
        self.assertEqual(launcher["replicas"], 1)
        self.assertIn(launcher["restartPolicy"], {"Never", "OnFailure"})
        container = self.check_pod(launcher["template"]["spec"], {None})
        script = container["args"][0]
        subprocess.run(["sh", "-n", "-c", script], timeout=60, check=True)
        given = self.check_options(script[script.index("exec ftrun") :].split())
        self.assertEqual(given["--checkpoint-dir"], "/saved")
        worker = self.check_pod(spec["mpiReplicaSpecs"]["Worker"]["template"]["spec"], {None})
        self.assertEqual(worker["command"], ["/usr/sbin/sshd"])
        port = str(worker["ports"][0]["containerPort"])
        self.assertIn(port, worker["args"])
        for name in ("ssh.conf", "sshd.conf"):
            with open(f"{DIRECTORY}/{name}", encoding="ascii") as file:
                self.assertRegex(file.read(), rf"(?m)^\s*Port {port}$")

    def test_jobset(self):
        document = load("jobset.yaml")
        self.is_kind(document, "jobset.x-k8s.io/v1alpha2", "JobSet")
        spec = document["spec"]
        self.has_only(spec, {"network", "successPolicy", "failurePolicy", "replicatedJobs"}, "the JobSet")
        self.has_only(spec["network"], {"enableDNSHostnames", "subdomain"}, "its network")
        self.has_only(spec["failurePolicy"], {"maxRestarts"}, "its failurePolicy")
        jobs = {job["name"]: job for job in spec["replicatedJobs"]}
        self.assertEqual(set(jobs), {"ftrun", "agents"})
        self.assertEqual(spec["successPolicy"]["targetReplicatedJobs"], ["ftrun"])
        self.assertEqual(spec["successPolicy"]["operator"], "All")
        containers = {}
        for name, job in jobs.items():
            self.has_only(job, {"name", "replicas", "template"}, "the replicated job")
            self.has_only(job["template"]["spec"], JOB, "the Job")
            pod = job["template"]["spec"]["template"]["spec"]
            containers[name] = self.check_pod(pod, {"Never", "OnFailure"})
        ftrun, agent = containers["ftrun"], containers["agents"]
        given = self.check_options([*ftrun["command"], *ftrun["args"]])
        joins = self.check_options([*agent["command"], *agent["args"]])
        # The names of a JobSet's pods: JOBSET-JOB-INDEX-POD.SUBDOMAIN
        host, port = joins["--join"].split(":")
        self.assertEqual(host, f"{document['metadata']['name']}-ftrun-0-0.{spec['network']['subdomain']}")
        self.assertEqual(given["--listen"], f":{port}")
        self.assertEqual(ftrun["ports"][0]["containerPort"], int(port))
        agents = jobs["agents"]["template"]["spec"]
        self.assertEqual(int(given["--nodes"]), agents["parallelism"])
        self.assertEqual(agents["completions"], agents["parallelism"])
        for container in containers.values():
            (variable,) = container["env"]
            self.assertEqual(variable, {"name": "REJOIN_SECRET_FILE", "value": "/etc/rejoin/secret"})
            self.assertTrue(any(m["mountPath"] == "/etc/rejoin" and m["readOnly"] for m in container["volumeMounts"]))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ftrun", required=True, type=os.path.abspath)
    parser.add_argument("rest", nargs="*")
    parser.parse_args(namespace=OPTIONS)
    unittest.main(argv=[sys.argv[0], *OPTIONS.rest], verbosity=2)
