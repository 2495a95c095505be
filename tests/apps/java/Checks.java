import java.util.Objects;
import java.util.concurrent.Callable;

/** What the Java programs share: one line per check, comparing, waiting. */
final class Checks {
    static boolean failed;

    interface Run {
        void run() throws Exception;
    }

    static void check(String name, Run run) {
        try {
            run.run();
            System.out.println("ok " + name);
        } catch (Throwable error) {
            failed = true;
            System.out.println("not ok " + name + ": " + error);
        }
    }

    static void same(Object got, Object expected) {
        if (!Objects.equals(got, expected)) {
            throw new AssertionError("expected " + expected + ", got " + got);
        }
    }

    /** Waits until it is true. */
    static void until(String what, Callable<Boolean> condition) throws Exception {
        long began = System.nanoTime();
        while (!condition.call()) {
            if (System.nanoTime() - began > 30_000_000_000L) {
                throw new AssertionError(what + ": not within 30 s");
            }
            Thread.sleep(2);
        }
    }

    private Checks() {}
}
