// Fault injection from the page, if `rrdma inspect --allow-faults` permits it: the active rules, and a form for
// another.
import { h, replace, setText } from "./dom";
import { count } from "./format";
import type { SetFault } from "./looks";
import { currentLanguage, t } from "./text";

const examples = ["net=drop=5%", "net=delay=20ms for=5s", "status=RETRY_EXC_ERR", "qp=error", "port=down for=2s", "freeze for=500ms", "verb=ibv_reg_mr:ENOMEM"];

export class FaultPanel {
  readonly element = h("section", { class: "faults", hidden: true });
  private readonly words = h("input", { type: "text", list: "fault-examples", autocomplete: "off", spellcheck: "false", "aria-label": "fault", maxlength: 250 });
  private readonly answer = h("p", { class: "hint", role: "status" });
  private readonly list = h("ul", {});
  private shape = "";

  constructor() {
    this.words.addEventListener("keydown", (event) => { if (event.key === "Enter") void this.set(); });
  }

  show(faults: SetFault[] | undefined): void {
    this.element.hidden = faults === undefined;
    if (!faults) return;
    // A button that is replaced while it is pressed gets no click, so only new rules replace the list.
    const shape = currentLanguage() + JSON.stringify(faults.map(({ number, fault }) => [number, fault]));
    if (shape !== this.shape) {
      if (!this.element.childElementCount || this.shape.slice(0, 2) !== currentLanguage()) this.build();
      this.shape = shape;
      replace(this.list, ...faults.map((fault) => h("li", { "data-fault": fault.number }, h("span", { class: "badge rnr" }, `⚡ ${fault.number}`), h("code", {}, fault.fault), h("small", {}),
        h("button", { class: "icon", title: t("clear_fault"), "aria-label": t("clear_fault"), onclick: () => void this.order(`clear ${fault.number}`) }, "✕"))));
    }
    faults.forEach((fault, i) => setText(this.list.children[i]!.querySelector("small")!, t("injected", count(fault.injected))));
  }

  // Puts words into the form; the reader may change them before they are set.
  propose(words: string): void {
    this.words.value = words;
    this.words.scrollIntoView({ block: "center" });
    this.words.focus();
  }

  private build(): void {
    this.words.placeholder = t("fault_words");
    replace(this.element, h("h2", {}, t("faults_on_purpose")), h("div", { class: "searchbox" }, this.words, h("button", { class: "chip", onclick: () => void this.set() }, t("set_fault"))),
      h("datalist", { id: "fault-examples" }, ...examples.map((value) => h("option", { value }))), this.answer, this.list);
  }

  private async set(): Promise<void> {
    const words = this.words.value.trim();
    if (words && await this.order(`set ${words}`)) this.words.value = "";
  }

  private async order(words: string): Promise<boolean> {
    try {
      const answer = await fetch("fault", { method: "POST", body: words });
      const { done, text } = await answer.json() as { done: boolean; text: string };
      this.answer.classList.toggle("reason", !done);
      setText(this.answer, text.trim());
      return done;
    } catch (error) {
      setText(this.answer, String(error));
      return false;
    }
  }
}
