// What the page does beyond HTML: it asks for itself again every two seconds while it is watched, changes only what
// changed, and lets ages go on. Everything works without it.
(() => {
  "use strict";
  const PERIOD_MS = 2000;
  const LONGEST_WAIT_MS = 30000;
  const main = document.getElementById("main");
  const live = document.getElementById("live");
  const pulse = document.getElementById("pulse");
  if (!main) return;

  let clockOffsetMs = main.dataset.now ? Number(main.dataset.now) - Date.now() : 0;

  // The same words as the server's.
  const span = (ms) => {
    const seconds = Math.max(0, Math.floor(ms / 1000));
    if (seconds < 120) return `${seconds} s`;
    if (seconds < 7200) return `${Math.floor(seconds / 60)} min`;
    if (seconds < 172800) return `${Math.floor(seconds / 3600)} h`;
    return `${Math.floor(seconds / 86400)} days`;
  };
  const ages = () => {
    const now = Date.now() + clockOffsetMs;
    for (const time of main.querySelectorAll("time[data-since]")) {
      const text = span(now - Number(time.dataset.since));
      if (time.textContent !== text) time.textContent = text;
    }
  };
  setInterval(ages, 1000);

  // Makes `from` like `to` and keeps what can be kept: the nodes, so the focus, what is typed, open notes, and films
  // that play.
  const attributes = (from, to) => {
    for (const { name, value } of [...to.attributes]) {
      if (from.getAttribute(name) !== value) from.setAttribute(name, value);
    }
    for (const { name } of [...from.attributes]) {
      if (to.hasAttribute(name) || (name === "open" && from.nodeName === "DETAILS")) continue;
      from.removeAttribute(name);
    }
  };
  const fits = (from, to) =>
    from.nodeType === to.nodeType && from.nodeName === to.nodeName && (from.id || "") === (to.id || "");
  const morph = (from, to) => {
    if (from.nodeType !== Node.ELEMENT_NODE) {
      if (from.nodeValue !== to.nodeValue) from.nodeValue = to.nodeValue;
      return;
    }
    if (from.nodeName === "VIDEO" && from.getAttribute("src") === to.getAttribute("src")) return;
    attributes(from, to);
    if (from.nodeName === "TEXTAREA") return;
    let next = from.firstChild;
    const wanted = new Set([...to.children].map((one) => one.id));
    for (const child of [...to.childNodes]) {
      // What goes makes room first: whatever follows then stays where it is, and keeps its focus.
      while (next && next.id && !wanted.has(next.id)) {
        const gone = next;
        next = next.nextSibling;
        gone.remove();
      }
      let match = next;
      if (child.id) {
        match = [...from.children].find((one) => one.id === child.id) || null;
        if (match && match !== next) from.insertBefore(match, next);
      }
      if (match && fits(match, child)) {
        morph(match, child);
        next = match.nextSibling;
      } else {
        from.insertBefore(document.importNode(child, true), next);
      }
    }
    while (next) {
      const gone = next;
      next = next.nextSibling;
      gone.remove();
    }
  };

  const say = (text, late) => {
    if (!pulse) return;
    pulse.textContent = text;
    pulse.classList.toggle("late", Boolean(late));
    pulse.classList.toggle("beats", !late);
  };
  const show = (html) => {
    const fresh = new DOMParser().parseFromString(html, "text/html").getElementById("main");
    if (!fresh) return;
    const focused = main.contains(document.activeElement) ? document.activeElement : null;
    const before = main.dataset.summary;
    morph(main, fresh);
    if (main.dataset.now) clockOffsetMs = Number(main.dataset.now) - Date.now();
    ages();
    if (focused && focused !== main && !main.contains(focused)) main.focus({ preventScroll: true });
    if (live && main.dataset.summary && main.dataset.summary !== before) live.textContent = main.dataset.summary;
  };

  let waitMs = PERIOD_MS;
  let asking = false;
  const ask = async () => {
    if (asking || document.hidden) return;
    asking = true;
    try {
      const headers = main.dataset.etag ? { "If-None-Match": main.dataset.etag } : {};
      const answer = await fetch(location.pathname + location.search, {
        headers, cache: "no-store", redirect: "manual", credentials: "same-origin",
      });
      if (answer.type === "opaqueredirect") {
        location.reload();
        return;
      }
      if (answer.status === 200) show(await answer.text());
      if (answer.status !== 200 && answer.status !== 304) throw new Error(`status ${answer.status}`);
      waitMs = PERIOD_MS;
      say("Live: what changes is shown within two seconds.");
    } catch {
      waitMs = Math.min(LONGEST_WAIT_MS, waitMs * 2);
      say("The registry can't be reached now; trying again.", true);
    } finally {
      asking = false;
    }
  };
  if ("live" in main.dataset) {
    const again = async () => {
      await ask();
      setTimeout(again, waitMs);
    };
    setTimeout(again, PERIOD_MS);
    document.addEventListener("visibilitychange", ask);
  }

  // Whoever comes by a link from elsewhere is met by the sign-in, because a strict cookie isn't sent along. Asked from
  // here it is.
  const door = main.querySelector("[data-next]");
  if (door) {
    fetch(door.dataset.next, { redirect: "manual", cache: "no-store" })
      .then((answer) => {
        if (answer.status === 200) location.replace(door.dataset.next);
      })
      .catch(() => {});
  }

  // What a change came to is said once, not again after a reload.
  if (location.search.includes("said=")) {
    const address = new URL(location.href);
    address.searchParams.delete("said");
    history.replaceState(null, "", address);
  }
})();
