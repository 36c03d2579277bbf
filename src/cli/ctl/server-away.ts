/** What `ctl` says when a server does not answer. */
import { printableWhole } from "../../lib/printable.ts";
import { type Explanation, UserError } from "../../lib/user-error.ts";

/** A server, and where its address was read. */
interface Named {
  readonly url: string;
  readonly from: string;
}

/** The server does not answer at this moment: asking again may help. */
export class ServerAway extends UserError {
  constructor(explanation: Explanation) {
    super(explanation, { exitCode: 1 });
  }

  static unreachable({ url, from }: Named, problem: string): ServerAway {
    const untrusted = /certificate|self[- ]signed|CERT_|issuer/i.test(problem);
    return new ServerAway({
      what: `the server at ${url} cannot be reached`,
      why: `${printableWhole(problem)} (its address comes from ${from})`,
      fix: untrusted
        ? "trust it with --fingerprint sha256:… (llmgw ctl token create prints it on the server's machine) or --ca FILE"
        : "check that it runs (systemctl status llmgw-server, or llmgw up) and that the address is right",
    });
  }
}
