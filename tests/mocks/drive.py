"""Drives the program against two mock servers: drive.py PROGRAM HOME."""

import http.client
import json
import os
import pathlib
import signal
import socket
import subprocess
import sys
import tempfile
import time

PROGRAM, HOME = sys.argv[1], pathlib.Path(sys.argv[2])
HERE = pathlib.Path(__file__).resolve().parent
IDLE_MS = 400
MODELS = {
    "messages": "anthropic:claude-opus-4-5",
    "chat": "openai:gpt-5",
    "responses": "responses:gpt-5",
    "gemini": "gemini:gemini-3-pro",
}
# So many events of LLMock show nothing yet, so that a call that breaks there is made again.
SILENT = {"messages": 2, "chat": 1, "responses": 2, "gemini": 0}
NOTE = "Zürich 🚀\n"
TEXT = "Once upon a time there was a line that broke in the middle of a long story about the sea."


def need(holds, what):
    if not holds:
        raise SystemExit(f"FAILED: {what}")


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def ask(port, method, path, body=None):
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
    try:
        connection.request(method, path, None if body is None else json.dumps(body))
        return json.loads(connection.getresponse().read() or b"null")
    finally:
        connection.close()


def start(command, port):
    log = tempfile.TemporaryFile()
    server = subprocess.Popen(command, stdout=log, stderr=subprocess.STDOUT)
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline and server.poll() is None:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return server
        except OSError:
            time.sleep(0.1)
    log.seek(0)
    raise SystemExit(f"FAILED: {command[0]} did not start: {log.read().decode()}")


class Place:
    """A folder with a session in it, and the program run there against one server."""

    def __init__(self, server, port, api):
        self.what, self.api = f"{server} {api}", api
        self.dir = tempfile.TemporaryDirectory()
        self.path = pathlib.Path(self.dir.name)
        url = f"http://127.0.0.1:{port}"
        own = server == "llmock"
        self.env = {
            **{k: v for k, v in os.environ.items() if not k.startswith("RETHREAD_")},
            "RETHREAD_STORE": "sqlite:s.db",
            "RETHREAD_MODEL": MODELS[api],
            "RETHREAD_IDLE_TIMEOUT_MS": str(IDLE_MS),
            "ANTHROPIC_BASE_URL": url + "/anthropic" * own,
            "OPENAI_BASE_URL": url + "/v1",
            "GEMINI_BASE_URL": url + "/gemini" * own,
            **{f"{name}_API_KEY": "none" for name in ("ANTHROPIC", "OPENAI", "GEMINI")},
        }

    def begin(self, *arguments):
        pipe = subprocess.PIPE
        command = [PROGRAM, *arguments, "--json"]
        return subprocess.Popen(command, cwd=self.path, env=self.env, stdout=pipe, stderr=pipe)

    def end(self, process):
        out, err = process.communicate(timeout=60)
        try:
            return process.returncode, json.loads(out)
        except ValueError:
            raise SystemExit(f"FAILED: {self.what}: {process.args[1:]}: {out!r} {err.decode()}")

    def call(self, *arguments):
        return self.end(self.begin(*arguments))

    def events(self):
        file = self.path / "events"
        lines = file.read_text().splitlines() if file.exists() else []
        return [json.loads(line)["type"] for line in lines]

    def run(self, text):
        return self.call("run", text, "--session", "s", "--yes")

    def resume(self):
        return self.call("resume", "s", "--yes")

    def answered(self, done, what):
        code, document = done
        said = code == 0 and document["outcome"] == "answered" and document["answer"]
        need(said, f"{self.what}: {what}: {document}")
        return document

    def killed(self, text, is_time):
        """Runs, and kills the program when it is time."""
        (self.path / "events").unlink(missing_ok=True)
        process = self.begin("run", text, "--session", "s", "--yes", "--events", "events")
        deadline = time.monotonic() + 30
        while not is_time():
            alive = process.poll() is None and time.monotonic() < deadline
            need(alive, f"{self.what}: it ended before the kill: {self.events()}")
            time.sleep(0.005)
        process.send_signal(signal.SIGKILL)
        process.communicate()
        need(process.returncode == -signal.SIGKILL, f"{self.what}: it was not killed")
        code, why = self.call("why", "s")
        need(code == 0 and why["cause"] == "crashed", f"{self.what}: {why}")
        return why


def kill_and_resume(place):
    """Killed in the stream behind two tools, then while a tool is at work."""
    def is_time():
        events = place.events()
        return "tool_completed" in events and events[::-1].index("tool_completed") > 4

    why = place.killed("write the note", is_time)
    need(why["kind"] == "call_model", f"{place.what}: {why}")
    need((place.path / "note.txt").read_text() == NOTE, f"{place.what}: the tool did not write")
    document = place.answered(place.resume(), "resume behind the tools")
    need(document["tool_runs"] == [], f"{place.what}: a tool ran twice")


def kill_in_tool(place):
    why = place.killed("wait for it", (place.path / "started").exists)
    states = [call["state"] for call in why["unanswered"]]
    need(why["kind"] == "recover_tools" and states == ["unknown"], f"{place.what}: {why}")
    document = place.answered(place.resume(), "resume behind a killed tool")
    need(document["tool_runs"] == [], f"{place.what}: a tool ran twice")
    need((place.path / "started").read_text() == "x\n", f"{place.what}: the tool began twice")


def broken_off(place, done, what):
    """What was shown before the break is kept as interrupted, and a resume ends it."""
    code, document = done
    stop = document.get("stop") or {}
    held = code == 1 and document["outcome"] == "stopped" and stop["reason"] == "interrupted"
    need(held and document["tool_runs"] == [], f"{place.what}: {what}: {document}")
    place.answered(place.resume(), f"resume after {what}")


def aimock():
    port = free_port()
    program = HOME / "aimock/node_modules/.bin/llmock"
    flags = ["-p", str(port), "-f", str(HERE / "aimock.json"), "--log-level", "warn", "--strict"]
    server = start(["node", str(program), *flags], port)
    try:
        for api in MODELS:
            ask(port, "POST", "/__aimock/reset/journal")
            place = Place("aimock", port, api)
            kill_and_resume(place)
            kill_in_tool(place)
            place.answered(place.run("and now?"), "one more turn")
            broken_off(place, place.run("tell a story"), "a dropped line")
            journal = ask(port, "GET", "/__aimock/journal")
            entries = journal if isinstance(journal, list) else journal["entries"]
            refused = [e for e in entries if e["response"]["status"] != 200]
            need(not refused, f"{place.what}: refused: {json.dumps(refused)[:2000]}")
            print(f"{place.what}: {len(entries)} requests, killed twice, dropped once, resumed, answered")
    finally:
        server.kill()
        server.wait()


def llmock():
    port = free_port()
    program = str(HOME / "llmock/bin/llmock")
    # Slow enough for a client to be seen leaving.
    flags = ["--port", str(port), "--log-level", "error", "--stream-chunk-delay-ms", "25"]
    server = start([program, "serve", *flags], port)

    def plan(*behaviors):
        # A request takes one of each type, so what an earlier one left must go.
        ask(port, "DELETE", "/_llmock/scenario")
        ask(port, "POST", "/_llmock/scenario", {"behaviors": list(behaviors)})

    def reply(**what):
        return {"type": "reply", **what}

    def call(name, **arguments):
        return reply(tool_calls=[{"name": name, "arguments": arguments}])

    def fault(kind, after):
        return {"type": "stream_fault", "kind": kind, "after_chunks": after, "stall_seconds": 20}

    def report(*flags):
        command = [program, "report", "--url", f"http://127.0.0.1:{port}", *flags]
        return subprocess.run(command, stdout=subprocess.PIPE, text=True)

    try:
        for api in MODELS:
            ask(port, "POST", "/_llmock/reset")
            place = Place("llmock", port, api)
            plan(call("write_file", path="note.txt", content=NOTE), reply(text=TEXT, times=2))
            kill_and_resume(place)
            plan(call("shell", command="echo x >> started; sleep 2"), reply(text=TEXT))
            kill_in_tool(place)
            for kind in ("malformed_arguments", "unknown_tool"):
                tool_fault = {"type": "tool_fault", "kind": kind}
                plan(tool_fault, call("read_file", path="note.txt"), reply(text=TEXT))
                place.answered(place.run(f"a call with {kind}"), kind)
            told = report("--strict")
            need(told.returncode == 0, f"{place.what}: {told.stdout}")
            print(f"{place.what}: killed twice, resumed, answered")

        ask(port, "POST", "/_llmock/reset")
        fails = [(429, 2), (503, None), (529, None)]
        for api in MODELS:
            place = Place("llmock", port, api)
            for status, wait in fails:
                plan({"type": "fail", "status": status, "retry_after": wait}, reply(text=TEXT, times=2))
                document = place.answered(place.run(f"through a {status}"), f"a {status}")
                need(document["answer"] == TEXT, f"{place.what}: {document}")
            for kind in ("disconnect", "truncate", "malformed", "stall"):
                shown = kind == "stall" and api == "gemini"  # its first event shows something
                plan(fault(kind, SILENT[api] + shown), reply(text=TEXT, times=2))
                done = place.run(f"through a {kind}")
                if shown:
                    broken_off(place, done, f"a {kind}")
                    continue
                document = place.answered(done, f"a {kind}")
                need(document["answer"] == TEXT, f"{place.what}: {kind}: {document}")
        told = report("--strict")
        print(told.stdout.strip())
        need(told.returncode == 0, "LLMock complains")

        # Once something was shown, the response is kept, called interrupted, and given again only when
        # someone resumes. That request says more, so LLMock cannot know that it is the second try.
        ask(port, "POST", "/_llmock/reset")
        second_try = {"truncated_stream_accepted", "malformed_chunk_ignored", "gave_up"}
        for api in MODELS:
            place = Place("llmock", port, api)
            for kind in ("disconnect", "truncate", "malformed", "stall"):
                plan(fault(kind, SILENT[api] + 3), reply(text=TEXT, times=2))
                broken_off(place, place.run(f"through a late {kind}"), f"a late {kind}")
            print(f"{place.what}: interrupted four times, resumed, answered")
        told = json.loads(report("--json").stdout)
        codes = {finding["code"] for finding in told["findings"]}
        need(codes <= second_try, f"LLMock complains: {told}")
    finally:
        server.kill()
        server.wait()


aimock()
llmock()
