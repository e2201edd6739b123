// A Worker in a hidden frame: browsers start no workers from a folder (file:), and search needs one.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      const frame = document.createElement("iframe")
      frame.hidden = true
      frame.srcdoc = "<!doctype html>"
      this.ready = new Promise((done) => {
        frame.onload = () => {
          const inside = frame.contentWindow
          inside.postMessage = (data) => this.dispatchEvent(new MessageEvent("message", { data }))
          inside.importScripts = () => undefined // languages other than English
          const script = inside.document.createElement("script")
          script.src = new URL(url, location.href).href
          script.onload = () => done(inside)
          inside.document.head.append(script)
        }
      })
      document.documentElement.append(frame)
    }
    postMessage(data) {
      this.ready.then((inside) => inside.dispatchEvent(new MessageEvent("message", { data })))
    }
    terminate() {}
  }
}
