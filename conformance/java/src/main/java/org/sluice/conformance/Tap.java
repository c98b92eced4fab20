package org.sluice.conformance;

import java.io.DataInputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.net.SocketException;
import java.util.function.UnaryOperator;

/** A TCP proxy on loopback that shows every frame to the recorder on its way. */
final class Tap {
    private final int target;
    private final Recorder recorder;
    private final UnaryOperator<byte[]> answers;

    /**
     * @param answers what to make of frames on their way back, after they were recorded: a name server's route is
     *     turned to point at the next tap, or the client would walk around it
     */
    Tap(int port, int target, Recorder recorder, UnaryOperator<byte[]> answers) throws IOException {
        this.target = target;
        this.recorder = recorder;
        this.answers = answers;
        ServerSocket server = new ServerSocket(port, 64, InetAddress.getLoopbackAddress());
        daemon(() -> {
            while (true) {
                Socket client = server.accept();
                daemon(() -> join(client));
            }
        });
    }

    private void join(Socket client) throws IOException {
        Socket broker = new Socket(InetAddress.getLoopbackAddress(), target);
        client.setTcpNoDelay(true);
        broker.setTcpNoDelay(true);
        daemon(() -> pump(client, broker, true));
        pump(broker, client, false);
    }

    private void pump(Socket from, Socket to, boolean fromClient) throws IOException {
        try (from; to) {
            DataInputStream in = new DataInputStream(from.getInputStream());
            OutputStream out = to.getOutputStream();
            while (true) {
                int length = in.readInt();
                byte[] frame = new byte[4 + length];
                java.nio.ByteBuffer.wrap(frame).putInt(length);
                in.readFully(frame, 4, length);
                recorder.frame(from.getPort() + ":" + to.getPort(), to.getPort() + ":" + from.getPort(), frame);
                out.write(fromClient ? frame : answers.apply(frame));
                out.flush();
            }
        } catch (EOFException | SocketException closed) {
            // One side is done; leaving closes the other.
        }
    }

    private interface Work {
        void run() throws IOException;
    }

    private static void daemon(Work work) {
        Thread thread = new Thread(() -> {
            try {
                work.run();
            } catch (IOException e) {
                System.err.println("tap: " + e);
            }
        });
        thread.setDaemon(true);
        thread.start();
    }
}
