import { testCrashes } from "./crashes.js";

// All of them: test/long/crash.test.ts.
testCrashes({ maxChanges: 12, maxReads: 6 });
