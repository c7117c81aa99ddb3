/** Joins path segments with `/`; empty ones are left out, and a `.` at the start. URLs keep their scheme. */
export function joinPath(...segments: readonly string[]): string {
  let joined = "";
  for (const segment of segments) {
    if (segment === "") continue;
    if (joined === "" || joined === ".") joined = segment;
    else joined = joined.endsWith("/") ? joined + segment : `${joined}/${segment}`;
  }
  return joined;
}

/** The last segment of a path. */
export function baseName(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  return trimmed.slice(trimmed.lastIndexOf("/") + 1);
}

/** The path without its last segment; `.` when there is only one. */
export function parentPath(path: string): string {
  const trimmed = path.replace(/\/+$/, "");
  const slash = trimmed.lastIndexOf("/");
  if (slash < 0) return ".";
  return slash === 0 ? "/" : trimmed.slice(0, slash);
}

/** The path without `suffix`, or undefined when it does not end so. */
export function withoutSuffix(path: string, suffix: string): string | undefined {
  return path.endsWith(suffix) ? path.slice(0, -suffix.length) : undefined;
}
