// Package browsertest opens the page of steadydebug in a real browser, Chromium without a window, and looks
// at what a person would see. It is a module of its own, so that nothing here reaches a user's build.
//
// The tests need a Chromium: where CHROMIUM says, or in the PATH as chromium, chromium-browser or google-chrome. On
// Debian it is the package chromium.
package browsertest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"

	"github.com/chromedp/cdproto/emulation"
	"github.com/chromedp/chromedp"
)

// ErrNoBrowser says that there is no Chromium.
var ErrNoBrowser = errors.New("no Chromium found: install Debian's chromium, or set CHROMIUM to the path of one")

// find returns the path of the browser.
func find() (string, error) {
	if path := os.Getenv("CHROMIUM"); path != "" {
		return path, nil
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", ErrNoBrowser
}

// Start starts a browser, to be ended by close. Its pages are opened with chromedp.NewContext of the context.
func Start(parent context.Context) (ctx context.Context, stop func(), err error) {
	path, err := find()
	if err != nil {
		return nil, nil, err
	}
	options := append(chromedp.DefaultExecAllocatorOptions[:], chromedp.ExecPath(path))
	if os.Getuid() == 0 { // Chromium refuses to run its sandbox as root
		options = append(options, chromedp.NoSandbox)
	}
	allocator, cancel := chromedp.NewExecAllocator(parent, options...)
	ctx, cancelBrowser := chromedp.NewContext(allocator)
	stop = func() {
		cancelBrowser()
		cancel()
	}
	if err := chromedp.Do(ctx); err != nil {
		stop()
		return nil, nil, fmt.Errorf("start %s: %w", path, err)
	}
	return ctx, stop, nil
}

// View is how somebody looks at a page.
type View struct {
	Width, Height int64
	Dark, Still   bool // what they prefer: a dark colour scheme, reduced motion
}

// Set makes a page be looked at so.
func (v View) Set(page context.Context) error {
	scheme, motion := "light", "no-preference"
	if v.Dark {
		scheme = "dark"
	}
	if v.Still {
		motion = "reduce"
	}
	_, err := chromedp.Call(page, emulation.SetEmulatedMedia, emulation.SetEmulatedMediaParams{Features: []*emulation.MediaFeature{
		{Name: "prefers-color-scheme", Value: scheme},
		{Name: "prefers-reduced-motion", Value: motion},
	}})
	if err != nil {
		return err
	}
	if _, err := chromedp.Call(page, emulation.SetFocusEmulationEnabled, emulation.SetFocusEmulationEnabledParams{Enabled: true}); err != nil {
		return err // without it only one of several tabs has the keyboard
	}
	return chromedp.Do(page, chromedp.EmulateViewport(v.Width, v.Height))
}
