import { UsageError } from "../errors.js";

/** Gives names other names. */
export interface RenameRule {
  /** As it was written, for messages. */
  readonly text: string;
  /** The new name, or undefined when the rule does not concern the name. */
  apply(name: string): string | undefined;
}

/**
 * Parses a rule `FROM=TO`. FROM is a name; or a glob, each `*` of which stands for any characters, which the `*` of TO
 * give again in order; or a regular expression between slashes, as in `/^block(\d+)/=layers.$1/`, where TO may name its
 * groups.
 * @throws {@link UsageError} (`usage`)
 */
export function parseRename(text: string): RenameRule {
  const expression = /^\/((?:[^/\\]|\\.)*)\/([a-z]*)=(.*)$/s.exec(text);
  if (expression !== null) return expressionRule(text, expression[1] ?? "", expression[2] ?? "", expression[3] ?? "");
  const at = text.indexOf("=");
  const [from, to] = [text.slice(0, at), text.slice(at + 1)];
  if (at < 1 || to === "") {
    throw new UsageError("usage", `"${text}" is no rule to rename`, {
      hint: "A rule is FROM=TO, as in 'encoder/*=enc/*' or '/^block(\\d+)/=layers.$1'.",
    });
  }
  return globRule(text, from, to);
}

function expressionRule(text: string, source: string, flags: string, to: string): RenameRule {
  let pattern: RegExp;
  try {
    pattern = new RegExp(source, flags.includes("u") ? flags : `${flags}u`);
  } catch (cause) {
    throw new UsageError("usage", `"${text}" is no regular expression: ${(cause as Error).message}`, { cause });
  }
  return {
    text,
    apply: (name) => {
      const renamed = name.replace(pattern, to);
      return renamed === name ? undefined : renamed;
    },
  };
}

function globRule(text: string, from: string, to: string): RenameRule {
  const parts = from.split("*").map((part) => part.replace(/[.+?^${}()|[\]\\]/g, "\\$&"));
  const stars = parts.length - 1;
  const wanted = to.split("*");
  if (wanted.length - 1 > stars) {
    throw new UsageError("usage", `"${text}" has more * on the right than on the left`, {
      expected: `at most ${stars}`,
      actual: wanted.length - 1,
    });
  }
  const pattern = new RegExp(`^${parts.join("(.*)")}$`, "su");
  return {
    text,
    apply: (name) => {
      const match = pattern.exec(name);
      if (match === null) return undefined;
      return wanted.map((part, i) => (i === 0 ? part : `${match[i] ?? ""}${part}`)).join("");
    },
  };
}

/** A name after all rules, each applied to what the one before gave. */
export function renamed(name: string, rules: readonly RenameRule[]): string {
  return rules.reduce((current, rule) => rule.apply(current) ?? current, name);
}
