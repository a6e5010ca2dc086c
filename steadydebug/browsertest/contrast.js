// The texts whose contrast with what is behind them is below what WCAG 2 asks for at level AA: 4.5, or 3 for
// large ones.
(() => {
	const parse = color => {
		const n = color.match(/[\d.]+/g).map(Number);
		return { rgb: n.slice(0, 3), alpha: n.length > 3 ? n[3] : 1 };
	};
	const luminance = rgb => {
		const [r, g, b] = rgb.map(v => (v /= 255) <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4);
		return 0.2126 * r + 0.7152 * g + 0.0722 * b;
	};
	const ground = e => {
		for (; e; e = e.parentElement) {
			const c = parse(getComputedStyle(e).backgroundColor);
			if (c.alpha === 1) return c.rgb;
			if (c.alpha !== 0) throw new Error("a translucent background");
		}
		throw new Error("no background");
	};
	const poor = new Set();
	const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
	let seen = 0;
	while (walker.nextNode()) {
		const text = walker.currentNode.textContent.trim(), e = walker.currentNode.parentElement;
		if (!text || !e.checkVisibility({ visibilityProperty: true }) || e.closest("script, style, noscript, template, .unseen")) continue;
		seen++;
		const style = getComputedStyle(e), size = parseFloat(style.fontSize);
		const large = size >= 24 || size >= 18.66 && style.fontWeight >= 700;
		const [a, b] = [luminance(parse(style.color).rgb), luminance(ground(e))].sort((x, y) => y - x);
		const ratio = (a + 0.05) / (b + 0.05);
		if (ratio < (large ? 3 : 4.5)) poor.add(e.className + " " + e.tagName + " " + text.slice(0, 30) + ": " + ratio.toFixed(2));
	}
	for (const e of document.querySelectorAll("[placeholder]")) {
		const color = getComputedStyle(e, "::placeholder").color;
		const [a, b] = [luminance(parse(color).rgb), luminance(ground(e))].sort((x, y) => y - x);
		if ((a + 0.05) / (b + 0.05) < 4.5) poor.add("placeholder " + e.placeholder + ": " + color);
	}
	if (seen < 50) poor.add("only " + seen + " texts were seen");
	return [...poor];
})()
