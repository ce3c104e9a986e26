"""HTTPS alone, for clients with a certificate alone."""

import contextlib
import http.client
import shutil
import signal
import socket
import ssl

import pytest

from tests.serve.running import PATIENCE, Server, arguments, certificate, until_closed, wait_for

pytestmark = pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make certificates")


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tls")
    return {name: certificate(folder, name) for name in ("server", "client", "stranger")}


@pytest.fixture(scope="module")
def server(prometheus, files, tmp_path_factory):
    (crt, key), (authority, _) = files["server"], files["client"]
    options = ("--tls-certificate", crt, "--tls-key", key, "--tls-client-ca", authority)
    running = Server(tmp_path_factory.mktemp("server"), prometheus, *options)
    wait_for(lambda: running.events("metrics"), "metrics")
    yield running
    assert running.end(signal.SIGTERM) == 143


def ask(server, files, client):
    context = ssl.create_default_context(cafile=files["server"][0])
    if client:
        context.load_cert_chain(*files[client])
    connection = http.client.HTTPSConnection("127.0.0.1", server.port, timeout=PATIENCE, context=context)
    with contextlib.closing(connection):
        connection.request("POST", "/filter", arguments())
        return connection.getresponse().status


def test_with_the_certificate(server, files):
    assert ask(server, files, "client") == 200


@pytest.mark.parametrize("client", [None, "stranger", "server"])
def test_without_the_certificate(server, files, client):
    with pytest.raises((ssl.SSLError, OSError, http.client.HTTPException)):
        ask(server, files, client)
    assert ask(server, files, "client") == 200


@pytest.mark.parametrize("data", [b"GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n", b"\x16\x03\x01\xff\xff" + b"x" * 70_000])
def test_what_is_no_tls(server, files, data):
    with server.connect() as connection:
        with contextlib.suppress(OSError):
            connection.sendall(data)
            connection.shutdown(socket.SHUT_WR)
        assert b"HTTP/1.1 2" not in until_closed(connection)
    assert ask(server, files, "client") == 200


def test_old_versions_are_refused(server, files):
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    context.load_cert_chain(*files["client"])
    context.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1"):
        context.minimum_version, context.maximum_version = ssl.TLSVersion.TLSv1, ssl.TLSVersion.TLSv1_1
    with server.connect() as connection, pytest.raises((ssl.SSLError, OSError)):
        context.wrap_socket(connection)
