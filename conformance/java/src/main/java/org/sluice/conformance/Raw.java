package org.sluice.conformance;

import java.util.HashMap;
import java.util.Map;
import org.apache.rocketmq.remoting.netty.NettyClientConfig;
import org.apache.rocketmq.remoting.netty.NettyRemotingClient;
import org.apache.rocketmq.remoting.protocol.RemotingCommand;

/** Hand-made requests through the official transport: what the client classes would refuse to send. */
final class Raw implements AutoCloseable {
    private final NettyRemotingClient client = new NettyRemotingClient(new NettyClientConfig());

    Raw() {
        client.start();
    }

    RemotingCommand call(String address, int code, Map<String, String> header, byte[] body) throws Exception {
        RemotingCommand request = RemotingCommand.createRequestCommand(code, null);
        if (!header.isEmpty()) {
            request.setExtFields(new HashMap<>(header));
        }
        request.setBody(body);
        return client.invokeSync(address, request, 5000);
    }

    @Override
    public void close() {
        client.shutdown();
    }
}
