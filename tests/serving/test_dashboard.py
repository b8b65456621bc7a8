"""The REST client: what it repeats, what it gives up on, and what it says then."""

import threading
from http.server import BaseHTTPRequestHandler, HTTPServer

import pytest

from serve_inference import dashboard
from serve_inference.dashboard import ATTEMPTS, ServeRest
from serve_inference.errors import InferenceError


@pytest.fixture
def answering(monkeypatch):
    """Starts a dashboard that gives these answers in turn; returns its client and what it saw."""
    monkeypatch.setattr(dashboard, "PAUSE_S", 0.0)
    servers = []

    def start(*answers):
        left, seen = list(answers), []

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self):
                status, text = left.pop(0)
                body = self.rfile.read(int(self.headers["Content-Length"]))
                seen.append((self.path, body.decode()))
                self.send_response(status)
                self.end_headers()
                self.wfile.write(text.encode())

            def log_message(self, *_):
                pass

        server = HTTPServer(("127.0.0.1", 0), Handler)
        servers.append(server)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return ServeRest(f"http://127.0.0.1:{server.server_port}"), seen

    yield start
    for server in servers:
        server.shutdown()
        server.server_close()


def test_scaling_is_one_post(answering):
    rest, seen = answering((200, "{}"))
    rest.scale("digits", "DigitClassifier", 2)
    path = "/api/v1/applications/digits/deployments/DigitClassifier/scale"
    assert seen == [(path, '{"target_num_replicas":2}')]


def test_a_controller_on_its_way_back_is_asked_again(answering):
    rest, seen = answering((503, "no controller"), (200, "{}"))
    rest.scale("digits", "DigitClassifier", 2)
    assert len(seen) == 2


def test_it_gives_up_and_quotes_the_answer(answering):
    rest, seen = answering(*[(503, "no controller")] * ATTEMPTS)
    with pytest.raises(InferenceError, match="HTTP 503: no controller"):
        rest.scale("digits", "DigitClassifier", 2)
    assert len(seen) == ATTEMPTS


def test_a_refusal_is_not_repeated(answering):
    rest, seen = answering((404, "not found"))
    with pytest.raises(InferenceError, match="HTTP 404: not found"):
        rest.scale("digits", "DigitClassifier", 2)
    assert len(seen) == 1


def test_no_dashboard_at_the_address(monkeypatch):
    monkeypatch.setattr(dashboard, "PAUSE_S", 0.0)
    with pytest.raises(InferenceError, match=r"dashboard at http://127\.0\.0\.1:1 .*ConnectError"):
        ServeRest("http://127.0.0.1:1").details()
