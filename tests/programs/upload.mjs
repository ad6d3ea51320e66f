// SPDX-License-Identifier: MIT
// Uploads a file from node: upload.mjs http|https|fetch|dgram PORT FILE. https trusts NODE_EXTRA_CA_CERTS.
import dgram from "node:dgram";
import fs from "node:fs";
import http from "node:http";
import https from "node:https";

const DATAGRAM = 8000;
const [how, port, file] = process.argv.slice(2);
const content = fs.readFileSync(file);

function taken(status) {
    if (status !== 200) {
        throw new Error(`status ${status}`);
    }
}

function put(module) {
    const request = module.request({ host: "localhost", family: 4, port, method: "PUT", agent: false,
        headers: { "Content-Length": content.length } }, (answer) => {
        taken(answer.statusCode);
        answer.resume();
    });
    request.end(content);
}

switch (how) {
case "http":
    put(http);
    break;
case "https":
    put(https);
    break;
case "fetch":
    taken((await fetch(`http://127.0.0.1:${port}/`, { method: "PUT", body: content })).status);
    break;
case "dgram": {
    const socket = dgram.createSocket("udp4");
    const next = (at) => at < content.length
        ? socket.send(content.subarray(at, at + DATAGRAM), port, "127.0.0.1", () => next(at + DATAGRAM))
        : socket.close();
    next(0);
    break;
}
default:
    throw new Error(how);
}
