// What Netron's own reader makes of MLIR files: for each, a line of JSON with its operations by function.
// Usage: node netron.mjs FOLDER-OF-NETRON FILE…

import * as fs from 'fs';
import * as path from 'path';
import { pathToFileURL } from 'url';

const [home, ...files] = process.argv.slice(2);
const load = (name) => import(pathToFileURL(path.join(home, name)));
const { ModelFactory } = await load('mlir.js');
const text = await load('text.js');
const metadata = fs.readFileSync(path.join(home, 'mlir-metadata.json'), 'utf-8');

for (const file of files) {
    const data = new Uint8Array(fs.readFileSync(file));
    const context = {
        identifier: path.basename(file),
        stream: { length: data.length, peek: (count) => data.subarray(0, count) },
        set(type) { this.type = type; return type; },
        async read(kind) { return kind === 'text' ? text.Reader.open(data, 0x10000) : text.Decoder.open(data); },
        async asset() { return metadata; },
    };
    const factory = new ModelFactory();
    if (await factory.match(context) !== 'mlir.text') {
        throw new Error(`${file} is no MLIR to Netron`);
    }
    const model = await factory.open(context);
    const graphs = [...model.functions, ...model.modules];
    console.log(JSON.stringify(graphs.map((graph) => graph.nodes.map((node) => node.type.name))));
}
