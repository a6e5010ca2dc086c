// Screenshots takes the pictures of the page that the README shows. It calls made-up dependencies for a little
// more than two minutes, so that every chart is full, gets some of them into trouble, and writes
//
//	light.png, dark.png   all is well again, half a minute after an incident
//	incident.png          a dependency has turned slow
//	narrow.png            the same on a phone
//	hundred.png           a hundred dependencies, three of them in trouble
//
// Run it in the directory of the browser tests: go run ./screenshots -out ../../docs/img
package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/steady-go/steady/steadydebug/browsertest"
)

func main() {
	out := flag.String("out", "../../docs/img", "the directory for the pictures")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func run(out string) error {
	browser, stop, err := browsertest.Start(context.Background())
	if err != nil {
		return err
	}
	defer stop()
	shop, err := newScene("checkout", shopDependencies())
	if err != nil {
		return err
	}
	shards, err := newScene("orders", shardDependencies())
	if err != nil {
		return err
	}
	ctx, end := context.WithCancel(context.Background())
	var load sync.WaitGroup
	load.Go(func() { shop.run(ctx) })
	load.Go(func() { shards.run(ctx) })
	defer load.Wait()
	defer end()

	mux := http.NewServeMux()
	mux.Handle("/shop", shop.page)
	mux.Handle("/shards", shards.page)
	server := httptest.NewServer(mux)
	defer server.Close()
	defer shop.page.Close() // ends the streams that the server would wait for
	defer shards.page.Close()

	began := time.Now()
	for _, shot := range []struct {
		at   time.Duration
		path string
		view browsertest.View
		name string
	}{
		{125 * time.Second, "/shop", browsertest.View{Width: 1280, Height: 900}, "light.png"},
		{125 * time.Second, "/shop", browsertest.View{Width: 1280, Height: 900, Dark: true}, "dark.png"},
		{incident + 6*time.Second, "/shop", browsertest.View{Width: 1280, Height: 1150}, "incident.png"},
		{incident + 6*time.Second, "/shop", browsertest.View{Width: 390, Height: 844, Dark: true}, "narrow.png"},
		{incident + 6*time.Second, "/shards", browsertest.View{Width: 1440, Height: 900, Dark: true}, "hundred.png"},
	} {
		time.Sleep(time.Until(began.Add(shot.at)))
		picture, err := take(browser, server.URL+shot.path, shot.view)
		if err != nil {
			return err
		}
		if err := os.WriteFile(filepath.Join(out, shot.name), picture, 0o644); err != nil {
			return err
		}
		fmt.Printf("%s: %d kB\n", shot.name, (len(picture)+999)/1000)
	}
	return nil
}

// take opens a page and returns a picture of it, once it has drawn itself.
func take(browser context.Context, url string, view browsertest.View) ([]byte, error) {
	page, end := chromedp.NewContext(browser)
	defer end()
	if err := view.Set(page); err != nil {
		return nil, err
	}
	const drawn = `document.querySelector("#link").textContent.startsWith("Live") && document.querySelector(".tile .why").textContent !== ""`
	if err := chromedp.Do(page, chromedp.Navigate(url)); err != nil {
		return nil, err
	}
	if _, err := chromedp.Run(page, chromedp.Poll[bool](drawn, chromedp.WithPollingInterval(100*time.Millisecond))); err != nil {
		return nil, err
	}
	if err := chromedp.Do(page, chromedp.Sleep(time.Second)); err != nil { // colours fade in
		return nil, err
	}
	fat, err := chromedp.Run(page, chromedp.CaptureScreenshot())
	if err != nil {
		return nil, err
	}
	return slim(fat)
}

// slim packs a picture into its 256 most frequent colours; what is left are shades of the edges of letters.
func slim(fat []byte) ([]byte, error) {
	picture, err := png.Decode(bytes.NewReader(fat))
	if err != nil {
		return nil, err
	}
	count := make(map[color.Color]int)
	bounds := picture.Bounds()
	for y := bounds.Min.Y; y < bounds.Max.Y; y++ {
		for x := bounds.Min.X; x < bounds.Max.X; x++ {
			count[picture.At(x, y)]++
		}
	}
	colours := slices.SortedFunc(maps.Keys(count), func(a, b color.Color) int { return count[b] - count[a] })
	packed := image.NewPaletted(bounds, colours[:min(len(colours), 256)])
	draw.Draw(packed, bounds, picture, bounds.Min, draw.Src)
	var out bytes.Buffer
	encoder := png.Encoder{CompressionLevel: png.BestCompression}
	err = encoder.Encode(&out, packed)
	return out.Bytes(), err
}
