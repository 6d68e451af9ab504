"""A model that cannot be used, a wrong parameter, a signal: said clearly, and not the end."""

import shutil
import signal
import threading
import time
from typing import Any

import pytest
import torch
from diagnostic_msgs.msg import DiagnosticArray
from lifecycle_msgs.msg import Transition
from lifecycle_msgs.srv import ChangeState
from rclpy.event_handler import SubscriptionEventCallbacks
from rclpy.node import Node
from rclpy.parameter import Parameter
from rosgraph_msgs.msg import Clock

from xvla_ros import names
from xvla_ros.model.config import CONFIG_FILE
from xvla_ros.msg import ActionChunk, PolicyStatus
from xvla_ros.nodes import qos

WEIGHTS = "model.safetensors"


def configure_fails(policy, capfd):
    """What the node logs when configure fails."""
    capfd.readouterr()
    assert not policy.transition("configure")
    assert policy.lifecycle_state() == "unconfigured"
    out, err = capfd.readouterr()
    lines = [line for line in (out + err).splitlines() if "configure failed" in line]
    assert len(lines) == 1, out + err
    assert "Traceback" not in out + err
    return lines[0]


@pytest.fixture
def folder(model_folder, tmp_path):
    """A copy of the model folder, to be spoilt."""
    return shutil.copytree(model_folder, tmp_path / "model")


def test_a_missing_checkpoint_fails_configure_until_it_is_there(
    ros, stage, run, folder, model_folder, capfd
):
    (folder / WEIGHTS).unlink()
    policy = run(model_path=str(folder))
    assert str(folder / WEIGHTS) in configure_fails(policy, capfd)
    shutil.copy(model_folder / WEIGHTS, folder)
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_a_truncated_checkpoint_names_its_file(ros, stage, run, folder, model_folder, capfd):
    whole = (folder / WEIGHTS).read_bytes()
    (folder / WEIGHTS).write_bytes(whole[: len(whole) // 2])
    policy = run(model_path=str(folder))
    line = configure_fails(policy, capfd)
    assert str(folder / WEIGHTS) in line
    (folder / WEIGHTS).write_bytes(whole)
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_a_checkpoint_of_another_size_names_file_key_and_both_shapes(
    ros, stage, run, folder, capfd
):
    config = (folder / CONFIG_FILE).read_text()
    (folder / CONFIG_FILE).write_text(config.replace('"num_domains": 12', '"num_domains": 13'))
    policy = run(model_path=str(folder))
    line = configure_fails(policy, capfd)
    assert str(folder / WEIGHTS) in line
    assert "transformer.soft_prompt_hub.weight" in line
    assert "[12, 192]" in line
    assert "[13, 192]" in line
    (folder / CONFIG_FILE).write_text(config)
    policy.start()
    ros.wait_for(lambda: stage.chunks, what="a chunk")


def test_an_empty_model_path_says_so(run, capfd):
    assert "'model_path' is empty" in configure_fails(run(model_path=""), capfd)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_device_that_is_not_there_fails_configure_with_one_line(run, capfd):
    assert "cuda" in configure_fails(run(device="cuda:0"), capfd).lower()


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a CUDA device here")
def test_a_choice_of_the_cpu_is_told_with_its_reason(run, capfd):
    capfd.readouterr()
    assert run(device="auto").transition("configure")
    out, err = capfd.readouterr()
    assert "auto chose the CPU: cuda:0 is not usable" in " ".join((out + err).split())


def test_the_model_is_fixed_while_it_is_loaded_and_free_after_cleanup(run, model_folder, tmp_path):
    policy = run()
    assert policy.transition("configure")
    taken, reason = policy.set("model_path", str(tmp_path))
    assert not taken
    assert "'model_path' is read by configure" in reason
    assert policy.transition("cleanup")
    assert policy.set("denoising_steps", 3) == (True, "")


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("policy_rate_hz", 100.0, "30"),
        ("policy_rate_hz", -1.0, "0.1"),
        ("observation.max_image_age_s", float("nan"), "0.01"),
        ("proprio_source", "comanded", "did you mean 'commanded'"),
        ("polcy_rate_hz", 2.0, "did you mean 'policy_rate_hz'"),
        ("cameras.0.topic", "other", "read-only"),
    ],
)
def test_a_wrong_parameter_is_refused_with_its_reason(run, ros, stage, name, value, words):
    policy = run()
    taken, reason = policy.set(name, value)
    assert not taken
    assert words in reason
    assert ros.parameter(stage, names.POLICY_NODE, "policy_rate_hz") == 10.0


def test_the_rate_can_be_changed_while_it_runs(ros, stage, run):
    policy = run(policy_rate_hz=0.1)
    policy.start()
    ros.wait_for(lambda: stage.status is not None and stage.status.state == 2, what="RUNNING")
    assert policy.set("policy_rate_hz", 10.0) == (True, "")
    # At the old rate six chunks would take a minute.
    ros.wait_for(lambda: len(stage.chunks) >= 6, 40.0, "six chunks")


def test_services_answer_while_the_model_loads(ros, stage, run, monkeypatch):
    from xvla_ros.runtime import policy as runtime

    entered, go_on = threading.Event(), threading.Event()
    load = runtime.load_policy

    def slow(*arguments, **options):
        entered.set()
        assert go_on.wait(30.0)
        return load(*arguments, **options)

    monkeypatch.setattr(runtime, "load_policy", slow)
    policy = run()
    done = []
    thread = threading.Thread(target=lambda: done.append(policy.transition("configure")))
    thread.start()
    ros.wait_for(entered.is_set, what="loading")
    # From another node: one client waits in the thread above.
    other = ros.node("other")
    assert ros.state(other, names.POLICY_NODE) == "configuring"
    assert ros.parameter(other, names.POLICY_NODE, "device") == "cpu"
    go_on.set()
    thread.join(30.0)
    assert done == [True]


def test_a_shutdown_does_not_wait_for_a_model_that_loads(ros, stage, run, monkeypatch):
    from xvla_ros.runtime import policy as runtime

    entered, go_on = threading.Event(), threading.Event()

    def endless(*_arguments, **_options):
        entered.set()
        go_on.wait(60.0)

    monkeypatch.setattr(runtime, "load_policy", endless)
    policy = run()
    thread = threading.Thread(target=policy.transition, args=["configure"])
    thread.start()
    ros.wait_for(entered.is_set, what="loading")
    start = time.monotonic()
    policy.node.shut_down()
    assert time.monotonic() - start < 10.0
    assert policy.lifecycle_state() == "finalized"
    thread.join(30.0)
    go_on.set()


def test_cameras_joints_and_inference_are_in_the_diagnostics(ros, stage, run):
    heard = {}

    def on_message(message):
        heard.update({status.name: status for status in message.status})

    stage.create_subscription(DiagnosticArray, names.DIAGNOSTICS, on_message, qos.DIAGNOSTICS)
    policy = run(observation__max_image_age_s=0.5)
    policy.start()
    wanted = {
        f"{names.POLICY_NODE}: {what}"
        for what in ("inference", "/main/image_raw", "/wrist/image_raw", "/wx250s/joint_states")
    }
    ros.wait_for(lambda: set(heard) == wanted, what="diagnostics")

    def camera():
        return {v.key: v.value for v in heard[f"{names.POLICY_NODE}: /main/image_raw"].values}

    ros.wait_for(lambda: 5.0 < float(camera()["rate [Hz]"]) < 30.0, 40.0, "about 20 Hz")
    ros.wait_for(lambda: float(camera()["age [s]"]) < 1.0, what="a fresh image")

    def figure(name):
        figures = {v.key: v.value for v in heard[f"{names.POLICY_NODE}: inference"].values}
        return float(figures.get(name, 0.0))

    ros.wait_for(lambda: figure("inference p50 [s]") > 0.0, what="a latency")
    ros.wait_for(lambda: figure("beside the network n") >= 2.0, what="chunks")
    assert 0.0 < figure("beside the network min [s]") <= figure("beside the network median [s]")
    assert figure("beside the network p99 [s]") == 0.0, "too few for a p99"
    stage.silent.add("main/image_raw")
    ros.wait_for(
        lambda: heard[f"{names.POLICY_NODE}: /main/image_raw"].level == b"\x02", what="ERROR level"
    )


def test_a_clock_that_jumps_back_starts_afresh(ros, stage, run):
    """A bag that loops: /clock from this test, and stamps of the same clock."""
    stage.silent.add(names.joint_states())  # it has the wrong clock here
    sim = Parameter("use_sim_time", value=True)
    source: Node = ros.node("clock")
    clock = source.create_publisher(Clock, "/clock", 1)
    start = [time.monotonic() - 500.0]

    def tick():
        message = Clock()
        elapsed = time.monotonic() - start[0]
        message.clock.sec, message.clock.nanosec = int(elapsed), int(elapsed % 1.0 * 1e9)
        clock.publish(message)

    source.create_timer(0.005, tick)
    player = ros.add(type(stage)(ros.context, ("cam/main",), parameter_overrides=[sim]))
    policy = run(player, use_sim_time=True, cameras__0__topic="cam/main", cameras__1__topic="")
    policy.start()
    ros.wait_for(lambda: len(player.chunks) >= 3, what="chunks")
    assert all(chunk.stamp > 500.0 for chunk in player.heard_since(0))
    start[0] += 490.0
    ros.wait_for(lambda: any(c.stamp < 400.0 for c in player.heard_since(0)), what="chunks")
    after = [c for c in player.heard_since(0) if c.provenance.inference_start < 400.0]
    assert all(chunk.stamp < 400.0 for chunk in after)


def test_with_simulated_time_and_no_clock_it_says_what_is_missing(ros, stage, run):
    policy = run(use_sim_time=True)
    policy.start()
    ros.wait_for(
        lambda: stage.state() == PolicyStatus.WAITING and "/clock" in stage.status.message,
        what="a word about /clock",
    )


def bring(ros, stage, client, transition, state):
    """Asks until the process is in the state: an answer is lost if the client is not known yet.

    One client for all transitions: a second one of a node, made beside the first, has been seen
    never to become ready.
    """
    ros.wait_for(client.service_is_ready, 60.0, "change_state")

    def reached():
        client.call_async(ChangeState.Request(transition=Transition(id=transition)))
        return ros.state(stage, names.POLICY_NODE, 60.0) == state

    # Importing torch takes a minute on a machine that does ten other things.
    ros.wait_for(reached, 150.0, state)


@pytest.fixture
def alive(stage):
    """How many policies the stage's subscription counted as alive, each time that changed."""
    counts: list[int] = [0]

    def on_liveliness(info: Any) -> None:
        counts.append(info.alive_count)

    events = SubscriptionEventCallbacks(liveliness=on_liveliness)
    stage.create_subscription(
        ActionChunk, names.ACTION_CHUNK, lambda _: None, qos.CHUNK, event_callbacks=events
    )
    return counts


MODULE = "xvla_ros.nodes.policy_node"


def test_an_active_process_ends_in_order_on_a_signal(ros, stage, alive, model_folder, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text(
        f"""
        xvla_policy:
          ros__parameters:
            model_path: {model_folder}
            device: cpu
            instruction: reach
            policy_rate_hz: 10
            cameras: {{0: {{topic: main/image_raw}}}}
            cameras.1.topic: wrist/image_raw
        """
    )
    process = ros.spawn(MODULE, "--ros-args", "--params-file", str(file))
    client = stage.create_client(ChangeState, f"{names.POLICY_NODE}/change_state")
    bring(ros, stage, client, Transition.TRANSITION_CONFIGURE, "inactive")
    bring(ros, stage, client, Transition.TRANSITION_ACTIVATE, "active")
    ros.wait_for(lambda: stage.chunks, what="a chunk")
    process.send(signal.SIGINT)
    assert process.wait() == 0, process.output
    assert "Traceback" not in process.output
    ros.wait_for(lambda: alive[-1] == 0, what="liveliness lost")


def test_a_process_that_is_killed_is_missed_by_its_subscribers(ros, stage, alive):
    process = ros.spawn(MODULE)
    ros.wait_for(lambda: alive[-1] == 1, 30.0, what="a live policy")
    process.kill()
    # The lease is 1 s; the rest is for a busy machine.
    ros.wait_for(lambda: alive[-1] == 0, 4.0, "liveliness lost")


def test_a_wrong_key_in_the_parameter_file_ends_the_process_with_its_name(ros, tmp_path):
    file = tmp_path / "policy.yaml"
    file.write_text("/**:\n  ros__parameters:\n    policy_rate: 2.0\n")
    process = ros.spawn("xvla_ros.nodes.policy_node", "--ros-args", "--params-file", str(file))
    assert process.wait() == 2
    assert str(file) in process.output
    assert "did you mean 'policy_rate_hz'?" in process.output
