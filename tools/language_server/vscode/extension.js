// Starts `triton-lsp` for .tri programs and IR; everything else is the server's.
const { workspace } = require("vscode");
const { LanguageClient } = require("vscode-languageclient/node");

let client;

exports.activate = () => {
  const command = workspace.getConfiguration("triton").get("server");
  const documentSelector = [{ language: "tri" }, { language: "mlir" }];
  client = new LanguageClient("triton", "Triton DSL", { command }, { documentSelector });
  return client.start();
};

exports.deactivate = () => client?.stop();
