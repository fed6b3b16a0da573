/* A worker in a frame, which the search uses from a folder, has to get a copy of each message, as a real worker does.
   vendor/iframe-worker passes the message itself. The search changes it, and the box of the search was emptied after
   each key. */
(function () {
  "use strict";
  const worker = window.IFrameWorker && window.IFrameWorker.prototype;
  if (!worker) return;
  const post = worker.postMessage;
  worker.postMessage = function (message) {
    post.call(this, structuredClone(message));
  };
})();
