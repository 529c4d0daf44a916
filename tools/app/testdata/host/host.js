// A client that shows MCP Apps, as far as a test needs one: the official client's side, and the policy that the specification has for a
// page that asks for nothing. What a page asks for is noted.
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { AppBridge, PostMessageTransport } from '@modelcontextprotocol/ext-apps/app-bridge';

const policy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; media-src 'self' data:; "
  + "connect-src 'none'; frame-src 'none'; object-src 'none'; base-uri 'self'";
const capabilities = { extensions: { 'io.modelcontextprotocol/ui': { mimeTypes: ['text/html;profile=mcp-app'] } } };
const frame = document.querySelector('iframe');
const client = new Client({ name: 'host', version: '1' }, { capabilities });
let bridge;

Object.assign(globalThis, {
  asked: [],
  view: () => frame.contentDocument,

  /** open shows the page of a tool with nothing in it yet. */
  async open(name, theme) {
    await bridge?.close();
    const { tools } = await client.listTools();
    const { contents: [page] } = await client.readResource({ uri: tools.find((t) => t.name === name)._meta.ui.resourceUri });
    frame.srcdoc = `<meta http-equiv="Content-Security-Policy" content="${policy}">${page.text}`;
    bridge = new AppBridge(client, { name: 'host', version: '1' }, { serverTools: {}, openLinks: {}, downloadFile: {} }, { hostContext: { theme } });
    const ready = new Promise((resolve) => { bridge.oninitialized = resolve; });
    bridge.onsizechange = ({ height }) => { frame.style.height = `${height}px`; };
    bridge.ondownloadfile = (params) => { globalThis.asked.push(params); return {}; };
    bridge.onopenlink = (params) => { globalThis.asked.push(params); return {}; };
    await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
    bridge.oncalltool = (params) => { globalThis.asked.push(params); return client.callTool(params); };
    await ready;
  },

  /** give hands the page an answer. */
  give(given, result) {
    bridge.sendToolInput({ arguments: given });
    bridge.sendToolResult(result);
  },

  /** call has a tool called, and its answer shown. */
  async call(name, given, theme) {
    globalThis.asked = [];
    await globalThis.open(name, theme);
    const result = await client.callTool({ name, arguments: given });
    globalThis.give(given, result);
    return result;
  },

  /** run runs code of which nothing is shown. */
  run: (code) => client.callTool({ name: 'run_python_code', arguments: { code } }).then(({ isError }) => isError),

  end: () => bridge.teardownResource({}),

  /** intrude has another frame send the page an answer. */
  intrude(result) {
    const other = document.createElement('iframe');
    other.srcdoc = `<script>
      parent.frames[0].postMessage(${JSON.stringify({ jsonrpc: '2.0', method: 'ui/notifications/tool-result', params: result })}, '*');
      parent.frames[0].setTimeout(() => { parent.intruded = true; });
    </script>`;
    document.body.append(other);
  },
});

await client.connect(new StreamableHTTPClientTransport(new URL('/mcp', location.href)));
globalThis.ready = true;
