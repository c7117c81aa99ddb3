import { testCrashes } from "../safety/crashes.js";

testCrashes({ maxChanges: Number.POSITIVE_INFINITY, maxReads: 60 });
