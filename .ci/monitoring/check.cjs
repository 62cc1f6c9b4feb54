// Checks k8s/monitoring with the types of others, by the compiler of TypeScript: PodMonitor and PrometheusRule with
// those of the Prometheus operator, and the dashboard with those of Grafana. A key that they do not have is a problem.

// node check.cjs PACKAGES FOLDER MANIFEST...
// PACKAGES is where npm has installed its packages. The manifests are JSON, which the caller makes of YAML.

const fs = require("node:fs");
const path = require("node:path");

const [packages, folder, ...manifests] = process.argv.slice(2);
const of = (name) => path.join(path.resolve(packages), "node_modules", name);
const ts = require(of("typescript"));
const problems = [];

const modules = {
  bargauge: "BarGaugePanelCfg",
  heatmap: "HeatmapPanelCfg",
  stat: "StatPanelCfg",
  "state-timeline": "StateTimelinePanelCfg",
  table: "TablePanelCfg",
  timeseries: "TimeSeriesPanelCfg",
};
const dashboard = JSON.parse(fs.readFileSync(path.join(folder, "dashboard.json"), "utf8"));
const { panels, ...rest } = dashboard;
const lines = [
  'import type { Dashboard, Panel } from "@grafana/schema";',
  // Texts are given for the members of an enum.
  "type Plain<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T",
  "  : T extends readonly (infer E)[] ? Plain<E>[] : unknown extends T ? T : { [K in keyof T]: Plain<T[K]> };",
  'type Defaults = NonNullable<Panel["fieldConfig"]>["defaults"];',
  "type Of<Kind, Options, Custom> = Plain<Omit<Panel, \"type\" | \"options\" | \"fieldConfig\">> & {",
  "  type: Kind; options: Plain<Options>;",
  '  fieldConfig: { defaults: Plain<Omit<Defaults, "custom">> & { custom?: Plain<Custom> };',
  '    overrides: Plain<NonNullable<Panel["fieldConfig"]>["overrides"]> };',
  "};",
  `const dashboard: Plain<Omit<Dashboard, "panels">> = ${JSON.stringify(rest, null, 1)};`,
];
for (const [index, text] of manifests.entries()) {
  const { kind } = JSON.parse(text);
  const type = `import("@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1").I${kind}`;
  lines.push(`const manifest${index}: ${type} = ${text};`);
}
for (const panel of panels) {
  const module = modules[panel.type];
  if (!module) {
    problems.push(`${panel.title}: the type ${panel.type} is not known here`);
    continue;
  }
  const name = panel.type.replace("-", "");
  const file = `@grafana/schema/dist/esm/raw/composable/${name}/panelcfg/x/${module}_types.gen`;
  const types = fs.readFileSync(of(`@grafana/schema/dist/types/raw/composable/${name}/panelcfg/x/types.gen.d.ts`), "utf8");
  const custom = /export interface FieldConfig\b/.test(types) ? `import("${file}").FieldConfig` : "{}";
  lines.push(`const panel${panel.id}: Of<"${panel.type}", import("${file}").Options, ${custom}> = ${JSON.stringify(panel, null, 1)};`);
}
const source = path.join(path.resolve(packages), "typed.ts");
fs.writeFileSync(source, `${lines.join("\n")}\nexport {};\n`);
const program = ts.createProgram([source], {
  strict: true, noEmit: true, skipLibCheck: true, types: [],
  module: ts.ModuleKind.ESNext, moduleResolution: ts.ModuleResolutionKind.Bundler, target: ts.ScriptTarget.ES2022,
});
for (const diagnostic of ts.getPreEmitDiagnostics(program)) {
  const { line } = diagnostic.file ? diagnostic.file.getLineAndCharacterOfPosition(diagnostic.start) : { line: 0 };
  const text = ts.flattenDiagnosticMessageText(diagnostic.messageText, "\n");
  problems.push(`${diagnostic.file?.fileName}:${line + 1}: ${text}`);
}
for (const problem of problems) console.error(problem);
console.log(`${manifests.length} manifests and ${panels.length} panels checked, ${problems.length} problems`);
process.exitCode = problems.length === 0 ? 0 : 1;
