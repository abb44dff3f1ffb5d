// The list of parts (SBOM, in CycloneDX) of the single executable: npm's own list, reduced to the packages that are in the file, and Node.
import { execFileSync } from 'node:child_process';

/** Numbers in process.versions that belong to no library. */
const NO_LIBRARIES = ['node', 'modules', 'napi', 'unicode', 'cldr', 'tz'];

/**
 * @param packages `name@version` of each package in the file
 * @param node what nodeBuild() returns, and `libraries`: its process.versions
 * @param time the commit's, so that two builds of it are the same
 */
export function partsList({ root, version, packages, node, sha256, time }) {
  const words = ['sbom', '--sbom-format=cyclonedx', '--workspaces=false'];
  const list = JSON.parse(execFileSync('npm', words, { cwd: root, encoding: 'utf8', maxBuffer: 2 ** 26 }));
  const { specVersion, metadata, components, dependencies } = list;
  const self = metadata.component['bom-ref'];
  const inside = components.filter((each) => packages.has(each['bom-ref']));
  const missing = [...packages].find((ref) => !inside.some((each) => each['bom-ref'] === ref));
  if (missing) throw new Error(`npm's list of parts lacks ${missing}`);
  const nodeRef = `node@${node.version}`;
  const kept = new Set([self, ...packages]);
  const graph = dependencies
    .filter(({ ref }) => kept.has(ref))
    .map(({ ref, dependsOn }) => ({ ref, dependsOn: dependsOn.filter((each) => kept.has(each)) }));
  graph.find(({ ref }) => ref === self).dependsOn.push(nodeRef);
  return {
    bomFormat: 'CycloneDX',
    specVersion,
    version: 1,
    metadata: {
      timestamp: time.toISOString(),
      tools: metadata.tools,
      component: {
        ...metadata.component,
        type: 'application',
        name: 'safemigrate',
        purl: `pkg:generic/safemigrate@${version}`,
        hashes: [{ alg: 'SHA-256', content: sha256 }],
      },
    },
    components: [
      ...inside.map((each) => ({ ...each, scope: 'required', properties: [] })),
      nodePart(node, nodeRef),
    ],
    dependencies: [...graph, { ref: nodeRef, dependsOn: [] }],
  };
}

function nodePart({ version, purl, hash, libraries }, ref) {
  const linked = Object.entries(libraries).filter(([name]) => !NO_LIBRARIES.includes(name));
  return {
    'bom-ref': ref,
    type: 'platform',
    name: 'node',
    version,
    purl,
    cpe: `cpe:2.3:a:nodejs:node.js:${version}:*:*:*:*:*:*:*`,
    hashes: hash ? [hash] : [],
    licenses: [{ license: { id: 'MIT' } }],
    // Linked into it. Scanners look these up by name and version.
    components: linked.map(([name, release]) => ({
      'bom-ref': `${ref}/${name}`,
      type: 'library',
      name,
      version: release,
      purl: `pkg:generic/${name}@${encodeURIComponent(release)}`,
    })),
  };
}
