package org.sluice.conformance;

import java.io.IOException;
import java.io.PrintStream;
import java.nio.file.Files;
import java.nio.file.Path;

/**
 * The frame around every program: flags in, one JSON line out, exit code 0 when the promise held and 1 when not.
 * Every program takes --namesrv HOST:PORT and --limit-seconds N.
 */
final class Program {
    interface Body {
        void run(Args args, Report report) throws Exception;
    }

    private static volatile boolean timeIsUp;

    private Program() {
    }

    static void run(String[] words, Body body) {
        PrintStream result = System.out;
        System.setOut(System.err); // the libraries like to talk; stdout is for the one line
        Report report = new Report();
        try {
            Args args = new Args(words);
            startLimit(args.get("limit-seconds", 120), report, result);
            body.run(args, report);
            args.refuseUnread();
        } catch (Throwable failure) {
            failure.printStackTrace();
            report.check(false, failure.toString());
        }
        finish(report, result);
    }

    private static void startLimit(int seconds, Report report, PrintStream result) {
        Thread body = Thread.currentThread();
        Thread limit = new Thread(() -> {
            pause(seconds * 1000L);
            report.check(false, "time limit of " + seconds + " s reached");
            timeIsUp = true;
            body.interrupt(); // lets it put down how far it came
            pause(5000);
            finish(report, result);
        }, "limit");
        limit.setDaemon(true);
        limit.start();
    }

    /** Halts instead of exiting: a client thread that cannot end must not keep the verdict from the caller. */
    private static synchronized void finish(Report report, PrintStream result) {
        report.broken().forEach(reason -> System.err.println("broken: " + reason));
        report.put("held", report.broken().isEmpty());
        result.println(report.json());
        result.flush();
        System.err.flush();
        Runtime.getRuntime().halt(report.broken().isEmpty() ? 0 : 1);
    }

    /** For loops around client calls that swallow interrupts. */
    static void checkTime() {
        if (timeIsUp) {
            throw new IllegalStateException("time is up");
        }
    }

    /** Waits until somebody has put a number, and a line's end, into that file. */
    static long awaitNumber(String file) throws IOException {
        while (true) {
            String text = Files.exists(Path.of(file)) ? Files.readString(Path.of(file)) : "";
            if (text.endsWith("\n")) {
                return Long.parseLong(text.strip());
            }
            pause(50);
        }
    }

    static void pause(long millis) {
        try {
            Thread.sleep(millis);
        } catch (InterruptedException e) {
            throw new IllegalStateException(e);
        }
    }
}
