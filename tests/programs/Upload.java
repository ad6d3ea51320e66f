// SPDX-License-Identifier: MIT
// Uploads a file from Java: Upload socket|transfer|selector|http|udp PORT FILE.

import java.io.InputStream;
import java.net.DatagramPacket;
import java.net.DatagramSocket;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.Socket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.channels.SelectionKey;
import java.nio.channels.Selector;
import java.nio.channels.SocketChannel;
import java.nio.file.Files;
import java.nio.file.Path;

public class Upload {
    static final int DATAGRAM = 8000;

    public static void main(String[] arguments) throws Exception {
        int port = Integer.parseInt(arguments[1]);
        Path file = Path.of(arguments[2]);
        InetSocketAddress peer = new InetSocketAddress("127.0.0.1", port);
        switch (arguments[0]) {
            case "socket" -> socket(peer, file);
            case "transfer" -> transfer(peer, file);
            case "selector" -> selector(peer, file);
            case "http" -> http(port, file);
            case "udp" -> udp(peer, file);
            default -> throw new IllegalArgumentException(arguments[0]);
        }
    }

    static void socket(InetSocketAddress peer, Path file) throws Exception {
        try (Socket socket = new Socket(peer.getAddress(), peer.getPort())) {
            socket.getOutputStream().write(Files.readAllBytes(file));
            socket.shutdownOutput();
            end(socket.getInputStream());
        }
    }

    /** A blocking channel, from file to socket within the kernel. */
    static void transfer(InetSocketAddress peer, Path file) throws Exception {
        try (SocketChannel channel = SocketChannel.open(peer); FileChannel from = FileChannel.open(file)) {
            for (long at = 0; at < from.size();) {
                at += from.transferTo(at, from.size() - at, channel);
            }
            channel.shutdownOutput();
            end(channel.socket().getInputStream());
        }
    }

    /** A channel that does not block, two buffers at once by writev. */
    static void selector(InetSocketAddress peer, Path file) throws Exception {
        byte[] content = Files.readAllBytes(file);
        int half = content.length / 2;
        ByteBuffer[] buffers = {
            ByteBuffer.wrap(content, 0, half), ByteBuffer.wrap(content, half, content.length - half)
        };
        try (SocketChannel channel = SocketChannel.open(peer); Selector selector = Selector.open()) {
            channel.configureBlocking(false);
            SelectionKey key = channel.register(selector, SelectionKey.OP_WRITE);
            while (buffers[1].hasRemaining()) {
                selector.select();
                selector.selectedKeys().clear();
                channel.write(buffers);
            }
            channel.shutdownOutput();
            key.interestOps(SelectionKey.OP_READ);
            selector.select();
        }
    }

    static void http(int port, Path file) throws Exception {
        HttpRequest request = HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + "/"))
            .version(HttpClient.Version.HTTP_1_1).PUT(HttpRequest.BodyPublishers.ofFile(file)).build();
        HttpClient client = HttpClient.newHttpClient();
        int status = client.send(request, HttpResponse.BodyHandlers.discarding()).statusCode();
        if (status != 200) {
            throw new IllegalStateException("status " + status);
        }
    }

    static void udp(InetSocketAddress peer, Path file) throws Exception {
        byte[] content = Files.readAllBytes(file);
        try (DatagramSocket socket = new DatagramSocket()) {
            for (int at = 0; at < content.length; at += DATAGRAM) {
                socket.send(new DatagramPacket(content, at, Math.min(DATAGRAM, content.length - at), peer));
            }
        }
    }

    static void end(InputStream stream) throws Exception {
        if (stream.read() != -1) {
            throw new IllegalStateException("an answer nobody has asked for");
        }
    }
}
