import { svelte } from "@sveltejs/vite-plugin-svelte";
import { defineConfig } from "vite";

// One script and one style sheet: `ramet serve` embeds them, and an exported page inlines them.
export default defineConfig({
  base: "./",
  plugins: [svelte()],
  build: {
    outDir: "build",
    emptyOutDir: true,
    target: "es2022",
    assetsInlineLimit: 0,
    modulePreload: { polyfill: false },
    cssCodeSplit: false,
    rollupOptions: {
      output: {
        entryFileNames: "assets/app-[hash].js",
        assetFileNames: "assets/app-[hash][extname]",
        codeSplitting: false,
      },
    },
  },
  server: { proxy: { "/api": process.env.RAMET_SERVER ?? "http://127.0.0.1:8265" } },
});
